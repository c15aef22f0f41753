#include "apps/perf/report/report_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "apps/perf/report/chart.h"
#include "apps/perf/report/report_plot.h"
#include "apps/perf/report/report_table.h"

namespace uroce::perf {
namespace {

constexpr size_t kSeriesMax = 6;  // as many as there are colours

/// A distribution of latencies, or a course in time, with its name.
struct Named {
  std::string name;
  const client::Histogram* latency = nullptr;
  const std::vector<double>* rates = nullptr;
};

/// The distributions or courses that have samples. Of many sizes only the first ones: a plot with all of them
/// shows none.
template <typename Is>
std::vector<Named> named_of(const Report& report, const Is& is) {
  std::vector<Named> all;
  for (const Measurement& one : report.measurements)
    all.push_back({.name = fmt::format("{} {}", name_of(one.operation), size_text(one.size)),
                   .latency = one.latency ? &one.latency->histogram : nullptr,
                   .rates = one.bandwidth ? &one.bandwidth->rate_samples : nullptr});
  for (const LoadFigures& one : report.loads)
    all.push_back(
        {.name = one.text + (one.back ? ", back" : ""), .latency = &one.latency, .rates = &one.rate_samples});
  std::erase_if(all, [&](const Named& one) { return !is(one); });
  all.resize(std::min(all.size(), kSeriesMax));
  return all;
}

bool is_distribution(const Named& one) { return one.latency != nullptr && one.latency->count() != 0; }
bool is_course(const Named& one) { return one.rates != nullptr && one.rates->size() > 1; }

/// Shares of eighths of an octave.
Series histogram_series(const Named& one, size_t colour) {
  constexpr double kBins = 8;
  std::map<int, uint64_t> bins;
  one.latency->for_each([&](uint64_t value, uint64_t samples) {
    bins[static_cast<int>(
        std::floor(std::log2(static_cast<double>(std::max<uint64_t>(value, 1))) * kBins))] += samples;
  });
  Series series{.name = one.name, .colour = colour, .points = {}};
  const auto point = [&](int bin, double share) {
    for (const int edge : {bin, bin + 1}) series.points.push_back({std::exp2(edge / kBins) / 1000, share});
  };
  for (int bin = bins.begin()->first; bin <= bins.rbegin()->first; ++bin) {
    const auto found = bins.find(bin);
    const auto samples = static_cast<double>(found == bins.end() ? 0 : found->second);
    point(bin, samples * 100 / static_cast<double>(one.latency->count()));
  }
  return series;
}

Series percentile_series(const Named& one, size_t colour) {
  Series series{.name = one.name, .colour = colour, .points = {}};
  const auto count = static_cast<double>(one.latency->count());
  double seen = 0;
  one.latency->for_each([&](uint64_t value, uint64_t samples) {
    series.points.push_back(
        {count / (count - seen), static_cast<double>(std::max<uint64_t>(value, 1)) / 1000});
    seen += static_cast<double>(samples);
  });
  return series;
}

std::string plots_of_distributions(const Report& report) {
  Chart histogram{.title = "Latency: how often",
                  .y_label = "percent of samples",
                  .series = {},
                  .x_label = "microseconds",
                  .x = Scale::kLogarithmic,
                  .y = Scale::kLinear,
                  .legend_right = true};
  Chart percentiles{.title = "Latency: percentiles",
                    .y_label = "microseconds",
                    .series = {},
                    .x_label = "percentile",
                    .x = Scale::kNines};
  for (const Named& one : named_of(report, is_distribution)) {
    histogram.series.push_back(histogram_series(one, histogram.series.size()));
    percentiles.series.push_back(percentile_series(one, percentiles.series.size()));
  }
  return histogram.series.empty() ? std::string() : svg_of(histogram) + svg_of(percentiles);
}

std::string plot_of_courses(const Report& report) {
  Chart chart{.title = "Rate in the measured time",
              .y_label = "messages a second",
              .series = {},
              .x_label = "part of the time, percent",
              .x = Scale::kLinear,
              .y = Scale::kLinear};
  for (const Named& one : named_of(report, is_course)) {
    Series series{.name = one.name, .colour = chart.series.size(), .points = {}};
    const auto parts = static_cast<double>(one.rates->size());
    for (size_t i = 0; i < one.rates->size(); ++i)
      series.points.push_back({static_cast<double>(i + 1) * 100 / parts, (*one.rates)[i]});
    chart.series.push_back(std::move(series));
  }
  return chart.series.empty() ? std::string() : svg_of(chart);
}

std::string plot_of(const Ramp& ramp) {
  Chart chart{.title = ramp.name + ": latency at a rate",
              .y_label = "microseconds",
              .series = {},
              .x_label = "messages a second",
              .x = Scale::kLinear};
  std::vector<RampStep> steps = ramp.steps;
  std::ranges::sort(steps, {}, &RampStep::offered);
  for (const bool p99 : {false, true}) {
    Series series{.name = p99 ? "p99" : "p50", .colour = p99 ? 1u : 0u, .points = {}};
    for (const RampStep& step : steps)
      if (const double y = p99 ? step.p99_us : step.p50_us; y > 0) series.points.push_back({step.offered, y});
    chart.series.push_back(std::move(series));
  }
  return svg_of(chart);
}

std::string table_of_machine(const Description& machine) {
  std::string out = "<table>\n";
  for (const auto& [name, text] : machine)
    out += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", escaped(name), escaped(text));
  return out + "</table>\n";
}

constexpr const char* kStyle =
    "body{margin:2rem;font-family:sans-serif;background:#ffffff;color:#222222}\n"
    "pre{overflow-x:auto;padding:1rem;border:1px solid #888}\n"
    "svg{max-width:100%;height:auto}th{text-align:left;padding-right:1rem;font-weight:normal;opacity:.7}\n"
    "@media (prefers-color-scheme: dark){body{background:#14171c;color:#e4e4e4}}\n";

}  // namespace

std::string html_of(const Report& report) {
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<title>uroce perf: {} to {}</title>\n<style>\n{}{}</style>\n</head>\n<body>\n<h1>uroce perf</h1>\n",
      escaped(report.device), escaped(report.peer), kStyle, chart_style());
  page += "<pre>" + escaped(table_of(report)) + "</pre>\n<h2>Plots</h2>\n<div>\n";
  for (const Chart& chart : charts_of(report)) page += svg_of(chart);
  for (const Ramp& ramp : report.ramps) page += plot_of(ramp);
  page += plots_of_distributions(report) + plot_of_courses(report);
  page += "</div>\n<h2>Machine</h2>\n" + table_of_machine(report.machine) + "</body>\n</html>\n";
  return page;
}

}  // namespace uroce::perf
