#include "apps/perf/report/report_table.h"

#include <fmt/format.h>

#include <cmath>

namespace uroce::perf {
namespace {

/// Three digits that count, whatever the magnitude: 0.00123, 1.23, 123, 1234.
std::string figure(double value) {
  const int before_point = value > 0 ? static_cast<int>(std::floor(std::log10(value))) + 1 : 1;
  return fmt::format("{:.{}f}", value, std::max(0, 3 - before_point));
}

std::string bytes_text(uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= 1u << 30) return fmt::format("{:.1f} GiB", value / (1u << 30));
  if (bytes >= 1u << 20) return fmt::format("{:.1f} MiB", value / (1u << 20));
  if (bytes >= 1u << 10) return fmt::format("{:.1f} KiB", value / (1u << 10));
  return fmt::format("{} B", bytes);
}

constexpr const char* kRow = "{:<7}{:>9} {:>11}{} {:>9} {:>10} {:>8} {:>8} {:>10} {:>9} {:>9} {:>12}\n";

/// The column that only unreliable services have: messages and answers that did not come.
std::string lost_column(Service service, const std::string& text) {
  return is_reliable(service) ? std::string() : fmt::format(" {:>9}", text);
}

std::string row_of(const Measurement& measurement, Service service) {
  const auto& bandwidth = measurement.bandwidth;
  const auto& latency = measurement.latency;
  const auto or_dash = [](bool there, auto text) { return there ? text() : std::string("-"); };
  return fmt::format(
      kRow, name_of(measurement.operation), size_text(measurement.size),
      or_dash(bandwidth.has_value(), [&] { return std::to_string(bandwidth->messages); }),
      lost_column(service, std::to_string((bandwidth ? bandwidth->messages - bandwidth->received : 0) +
                                          (latency ? latency->lost : 0))),
      or_dash(bandwidth.has_value(), [&] { return figure(bandwidth->gigabits_per_second); }),
      or_dash(bandwidth.has_value(), [&] { return figure(bandwidth->messages_per_second / 1e6); }),
      or_dash(bandwidth.has_value(), [&] { return figure(bandwidth->cpu_ns); }),
      or_dash(bandwidth.has_value(), [&] { return figure(bandwidth->cycles); }),
      or_dash(latency.has_value(), [&] { return figure(latency->p50_us); }),
      or_dash(latency.has_value(), [&] { return figure(latency->p99_us); }),
      or_dash(latency.has_value(), [&] { return figure(latency->p999_us); }),
      bytes_text(measurement.bytes_verified));
}

std::string head_of(const Report& report) {
  return fmt::format("{} ({}) -> {} ({}): {}, path MTU {}, {} outstanding, {}\n", report.device,
                     report.address, report.peer, report.peer_address, name_of(report.service),
                     report.path_mtu, report.depth, report.arrangement);
}

std::string table_of_rounds(const Report& report) {
  std::string text =
      fmt::format("\n{:>{}} {:>10} {:-^17}  {:-^30}\n", "", is_reliable(report.service) ? 39 : 49, "million",
                  " of a message ", " round trip, us ");
  text += fmt::format(kRow, "", "size", "messages", lost_column(report.service, "lost"), "Gbit/s",
                      "messages/s", "CPU ns", "cycles", "p50", "p99", "p99.9", "verified");
  Operation last{};
  for (const Measurement& measurement : report.measurements) {
    if (&measurement != &report.measurements.front() && measurement.operation != last) text += "\n";
    last = measurement.operation;
    text += row_of(measurement, report.service);
  }
  return text;
}

constexpr const char* kLoadRow =
    "{:<14}{:>6} {:>11}{} {:>9} {:>12} {:>12} {:>8} {:>8} {:>9} {:>9} {:>9} {:>9} {:>12}\n";

std::string row_of(const LoadFigures& one, Service service) {
  const auto us = [&](double percent) {
    return figure(static_cast<double>(one.latency.percentile(percent)) / 1000);
  };
  const bool part = one.cpu_ns == 0;  // of a mix
  return fmt::format(kLoadRow, (part ? "  " : "") + one.text, one.back ? "back" : "there", one.messages,
                     lost_column(service, part ? "" : std::to_string(one.lost)),
                     figure(one.gigabits_per_second),
                     one.offered > 0 ? fmt::format("{:.0f}", one.offered) : "-",
                     fmt::format("{:.0f}", one.messages_per_second), part ? "" : figure(one.cpu_ns),
                     part ? "" : figure(one.cycles), us(50), us(99), us(99.9), us(100),
                     part ? "" : bytes_text(one.bytes_verified));
}

std::string table_of_loads(const Report& report) {
  std::string text = report.load + "\n\n";
  text += fmt::format("{:>{}} {:-^25} {:-^17}  {:-^38}\n", "", is_reliable(report.service) ? 42 : 52,
                      " messages a second ", " of a message ", " latency, us ");
  text += fmt::format(kLoadRow, "", "", "messages", lost_column(report.service, "lost"), "Gbit/s", "wanted",
                      "seen", "CPU ns", "cycles", "p50", "p99", "p99.9", "most", "verified");
  for (const LoadFigures& one : report.loads) text += row_of(one, report.service);
  return text;
}

std::string table_of(const Ramp& ramp) {
  std::string text =
      fmt::format("\n{}: the highest rate that is held is {}\n{:>12} {:>12} {:>9} {:>9} {:>9}\n", ramp.name,
                  ramp.highest > 0 ? fmt::format("{:.0f} messages a second", ramp.highest) : "none", "wanted",
                  "seen", "lost", "p50", "p99");
  for (const RampStep& step : ramp.steps)
    text += fmt::format("{:>12.0f} {:>12.0f} {:>9} {:>9} {:>9}{}\n", step.offered, step.achieved, step.lost,
                        figure(step.p50_us), figure(step.p99_us), step.held ? "" : "  not held");
  return text;
}

}  // namespace

std::string table_of(const Report& report) {
  std::string text = head_of(report);
  if (report.load.empty()) return text + table_of_rounds(report);
  text += table_of_loads(report);
  for (const Ramp& ramp : report.ramps) text += table_of(ramp);
  return text;
}

}  // namespace uroce::perf
