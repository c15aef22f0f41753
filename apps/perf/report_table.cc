#include "apps/perf/report_table.h"

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

constexpr const char* kRow = "{:<7}{:>9} {:>11}{} {:>9} {:>10} {:>10} {:>9} {:>9} {:>12}\n";

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
      or_dash(latency.has_value(), [&] { return figure(latency->p50_us); }),
      or_dash(latency.has_value(), [&] { return figure(latency->p99_us); }),
      or_dash(latency.has_value(), [&] { return figure(latency->p999_us); }),
      bytes_text(measurement.bytes_verified));
}

}  // namespace

std::string table_of(const Report& report) {
  std::string text = fmt::format("{} ({}) -> {} ({}): {}, path MTU {}, {} outstanding, {}\n\n", report.device,
                                 report.address, report.peer, report.peer_address, name_of(report.service),
                                 report.path_mtu, report.depth, report.arrangement);
  text += fmt::format("{:>{}} {:>10}  {:-^30}\n", "", is_reliable(report.service) ? 39 : 49, "million",
                      " round trip, us ");
  text += fmt::format(kRow, "", "size", "messages", lost_column(report.service, "lost"), "Gbit/s",
                      "messages/s", "p50", "p99", "p99.9", "verified");
  Operation last{};
  for (const Measurement& measurement : report.measurements) {
    if (&measurement != &report.measurements.front() && measurement.operation != last) text += "\n";
    last = measurement.operation;
    text += row_of(measurement, report.service);
  }
  return text;
}

}  // namespace uroce::perf
