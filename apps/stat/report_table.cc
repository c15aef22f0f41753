#include "apps/stat/report_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "apps/stat/row_texts.h"
#include "base/counters/counter_texts.h"

namespace uroce::statistics {
namespace {

const Reading::Device* find(const Reading* reading, int pid, const std::string& name) {
  if (reading == nullptr) return nullptr;
  for (const Reading::Process& process : reading->processes)
    for (const Reading::Device& device : process.devices)
      if (process.pid == pid && device.name == name) return &device;
  return nullptr;
}

/// Growth per second; 0 when it has begun anew.
double per_second(uint64_t now, uint64_t before, double seconds) {
  return now < before || seconds <= 0 ? 0 : static_cast<double>(now - before) / seconds;
}

/// Rows of what the port counts, for all pollers together.
std::string port_counters_of(const Reading::Device& device, const Reading::Device* earlier, double seconds,
                             bool zeros) {
  struct PortCounter {
    const char* label;
    const char* help;
    uint64_t host::DeviceShown::*value;
  };
  static constexpr PortCounter kCounters[] = {
      {"port_dropped", "frames: Had no room, at the port or at the program they were for",
       &host::DeviceShown::port_dropped},
      {"port_transmit_calls", "calls: System calls that sent", &host::DeviceShown::port_transmit_calls}};
  const size_t columns = device.pollers.size() > 1 ? device.pollers.size() : 0;
  std::string lines;
  for (const PortCounter& counter : kCounters) {
    const uint64_t value = device.shown.*counter.value;
    if (value == 0 && !zeros) continue;
    lines += fmt::format("    {:<32} {:>16}", counter.label, value);
    if (earlier != nullptr) {
      const double rate = per_second(value, earlier->shown.*counter.value, seconds);
      lines += fmt::format(" {:>10}", short_number(rate));
    }
    for (size_t i = 0; i < columns; ++i) lines += fmt::format(" {:>14}", "");
    lines += fmt::format("  {}\n", counter.help);
  }
  return lines;
}

std::string counters_of(const Reading::Device& device, const Reading::Device* earlier, double seconds,
                        bool zeros) {
  const bool each = device.pollers.size() > 1;
  std::string heading = fmt::format("    {:<32} {:>16}", "COUNTER", "TOTAL");
  if (earlier != nullptr) heading += fmt::format(" {:>10}", "PER SECOND");
  for (size_t i = 0; each && i < device.pollers.size(); ++i)
    heading += fmt::format(" {:>14}", fmt::format("POLLER {}", i));
  std::string lines;
  for (size_t i = 0; i < kCounterCount; ++i) {
    if (device.total[i] == 0 && !zeros) continue;
    const CounterTexts& texts = texts_of(static_cast<Counter>(i));
    lines += fmt::format("    {:<32} {:>16}", texts.label, device.total[i]);
    if (earlier != nullptr)
      lines += fmt::format(" {:>10}", short_number(per_second(device.total[i], earlier->total[i], seconds)));
    for (const CounterValues& values : device.pollers)
      if (each) lines += fmt::format(" {:>14}", values[i]);
    lines += fmt::format("  {}: {}\n", texts.unit, texts.help);
  }
  lines += port_counters_of(device, earlier, seconds, zeros);
  if (lines.empty()) return "    nothing was counted yet\n";
  return heading + "\n" + lines;
}

std::string latency_lines_of(const Reading::Device& device) {
  std::string lines;
  for (size_t i = 0; i < kLatencyCount; ++i) {
    const LatencyValues& values = device.latencies[i];
    if (values.samples() == 0) continue;
    const LatencyTexts& texts = kLatencyTexts[i];
    const auto us = [&](double percent) { return static_cast<double>(values.percentile_ns(percent)) / 1000; };
    lines += fmt::format("    {:<22} {:<9} {:>10} {:>8.1f} {:>8.1f} {:>8.1f} {:>9.1f}  us: {} (1 of {})\n",
                         texts.stage, texts.operation, values.samples(), us(50), us(99), us(99.9), us(100),
                         texts.help, texts.sampled_of);
  }
  if (lines.empty()) return lines;
  return fmt::format("    {:<22} {:<9} {:>10} {:>8} {:>8} {:>8} {:>9}\n", "LATENCY", "OPERATION", "SAMPLES",
                     "P50", "P99", "P99.9", "MAX") +
         lines;
}

std::string nvmf_queue_table(const Reading::Process& process) {
  if (process.nvmf.queues.empty()) return {};
  std::string text = fmt::format("  {:<24} {:>6}", "NVME HOST", "QUEUE");
  for (const NvmfQueueValue& value : kNvmfQueueValues) text += fmt::format(" {:>16}", value.label);
  text += "\n";
  for (const NvmfQueue& queue : process.nvmf.queues) {
    text += fmt::format("  {:<24} {:>6}", queue.host, queue.number);
    for (const NvmfQueueValue& value : kNvmfQueueValues) text += fmt::format(" {:>16}", value.of(queue.row));
    text += fmt::format("  {}\n", queue.host_nqn);
  }
  return text;
}

std::string latency_line(std::string_view operation, const LatencyValues& values) {
  if (values.samples() == 0) return {};
  const auto us = [&](double percent) { return static_cast<double>(values.percentile_ns(percent)) / 1000; };
  return fmt::format(
      "  {:>9} {} in us: p50 {:.1f}, p99 {:.1f}, p99.9 {:.1f}, max {:.1f} ({} samples, 1 of {})\n", "",
      operation, us(50), us(99), us(99.9), us(100), values.samples(), host::kNvmfCommandsPerMeasured);
}

std::string nvmf_namespace_table(const Reading::Process& process) {
  if (process.nvmf.namespaces.empty()) return {};
  std::string text = fmt::format("  {:>9}", "NAMESPACE");
  for (const NvmfNamespaceValue& value : kNvmfNamespaceValues) text += fmt::format(" {:>16}", value.label);
  text += "  SUBSYSTEM\n";
  for (const NvmfNamespace& one : process.nvmf.namespaces) {
    text += fmt::format("  {:>9}", one.nsid);
    for (const NvmfNamespaceValue& value : kNvmfNamespaceValues)
      text += fmt::format(" {:>16}", value.of(one.row));
    text += fmt::format("  {}\n", one.subsystem);
    for (const NvmfNamespaceLatency& latency : kNvmfNamespaceLatencies)
      text += latency_line(latency.operation, one.*latency.of);
  }
  return text;
}

std::string region_table(const Reading::Process& process) {
  std::string text = fmt::format("  {:<10} {:<10} {:<13} {:>5} {:>18} {:>14}  {}\n", "KEY", "DEVICE",
                                 "REGION", "PD", "ADDRESS", "BYTES", "RIGHTS");
  for (const host::RegionRow& row : process.regions) {
    text += fmt::format("  {:#010x} {:<10} {:<13} {:>5} {:>#18x} {:>14}  {}\n", row.key,
                        process.devices[row.device].name, kind_of(row), row.domain, row.address, row.length,
                        row.bound != 0 ? fmt::format("{}", fmt::join(rights_of(row), " ")) : "not bound");
  }
  uint64_t all = 0;
  for (const Reading::Device& device : process.devices) all += device.shown.regions;
  if (all > process.regions.size() && process.regions.size() >= host::kRegionRowsMax)
    text += fmt::format("  ... {} of {}\n", process.regions.size(), all);
  return text;
}

std::string age_of(const Reading::Process& process, int64_t now_ns) {
  if (process.queue_pairs.current) return {};
  if (process.queue_pairs.answered_ns == 0)
    return "  does not answer: queue pairs, regions and links are unknown\n";
  return fmt::format("  does not answer: queue pairs, regions and links are those of {} s ago\n",
                     (now_ns - process.queue_pairs.answered_ns) / 1'000'000'000);
}

}  // namespace

std::string short_number(double value) {
  static constexpr std::string_view kUnits = " KMGTP";
  size_t unit = 0;
  for (; value >= 999.95 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  return unit == 0 ? fmt::format("{:.0f}", value) : fmt::format("{:.1f}{}", value, kUnits[unit]);
}

std::string queue_pair_table(const Reading::Process& process) {
  std::string text = fmt::format("  queue pairs of process {} {}\n", process.pid, process.program);
  text += fmt::format("  {:>8} {:<10} {:<5} {:<5} {:>8} {:>14} {:>8} {:>14} {:>8} {:>7} {:>9} {:<}\n", "QP",
                      "DEVICE", "TYPE", "STATE", "SENT", "BYTES", "RECEIVED", "BYTES", "RETRIES", "WINDOW",
                      "RTT", "PEER");
  for (const host::QueuePairRow& row : process.queue_pairs.rows) {
    const std::string peer = peer_of(row);
    text += fmt::format("  {:>#8x} {:<10} {:<5} {:<5} {:>8} {:>14} {:>8} {:>14} {:>8} {:>7} {:>7}us {}\n",
                        row.number, process.devices[row.device].name, type_of(row), state_of(row),
                        short_number(static_cast<double>(row.sent_messages)), row.sent_bytes,
                        short_number(static_cast<double>(row.received_messages)), row.received_bytes,
                        row.retransmitted, row.window, row.round_trip_ns / 1000,
                        peer.empty() ? peer : fmt::format("{} {:#x}", peer, row.destination));
  }
  if (process.queue_pairs.queue_pairs > host::kRowsMax)
    text += fmt::format("  ... the newest {} of {}\n", process.queue_pairs.rows.size(),
                        process.queue_pairs.queue_pairs);
  return text;
}

std::string to_table(const Reading& reading, const Reading* earlier, TableOptions options) {
  std::string text;
  const double seconds =
      earlier == nullptr ? 0 : static_cast<double>(reading.taken_ns - earlier->taken_ns) / 1e9;
  for (const Reading::Process& process : reading.processes) {
    text += fmt::format("process {} {}\n", process.pid, process.program);
    text += age_of(process, reading.taken_ns);
    for (const Reading::Device& device : process.devices) {
      const host::DeviceShown& shown = device.shown;
      text += fmt::format("  {}: {}, link {}, pollers {}, queue pairs {}, completion queues {}, regions {}\n",
                          device.name, device.port, shown.link_up != 0 ? "up" : "down", device.pollers.size(),
                          shown.queue_pairs, shown.completion_queues, shown.regions);
      text += counters_of(device, find(earlier, process.pid, device.name), seconds, options.zeros);
      text += latency_lines_of(device);
    }
    text += nvmf_queue_table(process) + nvmf_namespace_table(process);
    if (options.regions) text += region_table(process);
    if (options.queue_pairs) text += queue_pair_table(process);
  }
  return text;
}

std::string to_table(const host::QueuePairRow& row, const Reading::Process& process) {
  const std::string peer = peer_of(row);
  std::string text = fmt::format(
      "queue pair {:#x} of process {} {}, device {}, poller {}\n"
      "  {} in state {}, MTU {}, congestion control {}\n",
      row.number, process.pid, process.program, process.devices[row.device].name, row.poller, type_of(row),
      state_of(row), row.mtu, control_of(row));
  if (!peer.empty()) text += fmt::format("  peer {}, its queue pair {:#x}\n", peer, row.destination);
  for (const RowValue& value : kRowValues)
    text += fmt::format("  {:<20} {:>16}  {}: {}\n", value.label, fmt::format("{:.0f}", value.of(row)),
                        value.unit, value.help);
  return text;
}

}  // namespace uroce::statistics
