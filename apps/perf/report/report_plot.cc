#include "apps/perf/report/report_plot.h"

#include <fmt/format.h>

#include "apps/perf/report/chart.h"

namespace uroce::perf {
namespace {

/// A series per operation that has any value.
template <typename Value>
void add_series(Chart& chart, const Report& report, std::string_view suffix, Value value) {
  for (const Operation operation : {Operation::kWrite, Operation::kRead, Operation::kSend}) {
    Series series{.name = fmt::format("{}{}", name_of(operation), suffix),
                  .colour = static_cast<size_t>(operation),
                  .dashed = !suffix.empty() && suffix != " p50",
                  .points = {}};
    for (const Measurement& one : report.measurements) {
      if (one.operation != operation) continue;
      const double y = value(one);
      if (y > 0) series.points.push_back({static_cast<double>(one.size), y});
    }
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  }
}

}  // namespace

std::vector<Chart> charts_of(const Report& report) {
  Chart bandwidth{.title = "Bandwidth", .y_label = "Gbit/s", .series = {}};
  add_series(bandwidth, report, "",
             [](const Measurement& one) { return one.bandwidth ? one.bandwidth->gigabits_per_second : 0; });
  Chart latency{.title = "Round trip", .y_label = "microseconds", .series = {}};
  add_series(latency, report, " p50",
             [](const Measurement& one) { return one.latency ? one.latency->p50_us : 0; });
  add_series(latency, report, " p99",
             [](const Measurement& one) { return one.latency ? one.latency->p99_us : 0; });
  Chart cpu{.title = "CPU time of a message", .y_label = "nanoseconds", .series = {}};
  add_series(cpu, report, "",
             [](const Measurement& one) { return one.bandwidth ? one.bandwidth->cpu_ns : 0; });
  std::vector<Chart> charts;
  for (Chart* chart : {&bandwidth, &latency, &cpu}) {
    if (!chart->series.empty()) charts.push_back(std::move(*chart));
  }
  return charts;
}

std::string plot_of(const Report& report) {
  return svg_of(fmt::format("{} to {}, {}, path MTU {}, {} outstanding, {}", report.device, report.peer,
                            name_of(report.service), report.path_mtu, report.depth, report.arrangement),
                charts_of(report));
}

}  // namespace uroce::perf
