#include "apps/stat/reading.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "apps/serve/question.h"

namespace uroce::statistics {
namespace {

Reading::Device read_device(const ShownStatistics& shown, uint32_t index) {
  Reading::Device device{.name = shown.device_name(index),
                         .port = shown.device_port(index),
                         .shown = shown.device(index),
                         .pollers = {},
                         .total = {},
                         .latencies = {}};
  for (uint32_t poller = 0; poller < std::min(shown.pollers(), device.shown.pollers); ++poller) {
    CounterValues& values = device.pollers.emplace_back();
    for (size_t i = 0; i < kCounterCount; ++i) {
      values[i] = shown.counter(index, poller, static_cast<Counter>(i));
      device.total[i] += values[i];
    }
    for (size_t i = 0; i < kLatencyCount; ++i)
      device.latencies[i].add(shown.latency(index, poller, static_cast<Latency>(i)));
  }
  return device;
}

/// Devices that are opened together are one memory; a process with two of them has two.
void add(const ShownStatistics& shown, const Selection& selection, Reading& reading) {
  if (reading.processes.empty() || reading.processes.back().pid != shown.pid())
    reading.processes.push_back({.pid = shown.pid(),
                                 .program = shown.program(),
                                 .devices = {},
                                 .queue_pairs = {.current = true},
                                 .regions = {},
                                 .nvmf = {}});
  Reading::Process& process = reading.processes.back();
  ShownStatistics::Rows asked;
  if (selection.asks) asked = shown.ask({.queue_pair = selection.queue_pair, .regions = selection.regions});
  const auto first = static_cast<uint32_t>(process.devices.size());
  std::vector<std::optional<uint32_t>> place(shown.devices());  // in `devices`, of those that are wanted
  for (uint32_t i = 0; i < shown.devices(); ++i) {
    Reading::Device device = read_device(shown, i);
    if (!selection.device.empty() && device.name != selection.device) continue;
    place[i] =
        first + static_cast<uint32_t>(std::ranges::count_if(place, [](auto p) { return p.has_value(); }));
    process.devices.push_back(std::move(device));
  }
  ShownStatistics::Rows& all = process.queue_pairs;
  for (host::QueuePairRow& row : asked.rows) {
    if (row.device >= place.size() || !place[row.device]) continue;
    row.device = *place[row.device];
    all.rows.push_back(row);
  }
  for (host::RegionRow& row : asked.regions) {
    if (row.device >= place.size() || !place[row.device]) continue;
    row.device = *place[row.device];
    process.regions.push_back(row);
  }
  all.queue_pairs += asked.queue_pairs;
  all.current = all.current && asked.current;
  all.answered_ns = all.answered_ns == 0 ? asked.answered_ns : std::min(all.answered_ns, asked.answered_ns);
}

}  // namespace

Reading read_statistics(const Selection& selection) {
  Reading reading;
  for (const ShownStatistics::Place place : ShownStatistics::find(selection.pid)) {
    if (place.nvmf) {
      if (!reading.processes.empty() && reading.processes.back().pid == place.pid)
        reading.processes.back().nvmf = read_nvmf_target(place);
      continue;
    }
    const auto shown = ShownStatistics::open(place);
    if (shown) {
      add(*shown, selection, reading);
    } else if (shown.error().code != ENOENT) {
      reading.complaints.push_back(shown.error().message);
    }
  }
  std::erase_if(reading.processes, [](const Reading::Process& process) { return process.devices.empty(); });
  reading.taken_ns = serve::now_ns();
  return reading;
}

std::string why_nothing(const Selection& selection) {
  if (!selection.pid)
    return selection.device.empty()
               ? "no process that you may look at has a device of uroce open"
               : fmt::format("no process that you may look at has a device {} open", selection.device);
  struct stat status {};
  if (stat(fmt::format("/proc/{}", *selection.pid).c_str(), &status) != 0)
    return fmt::format("there is no process {}", *selection.pid);
  return fmt::format("process {} has no device {}open, or is not yours", *selection.pid,
                     selection.device.empty() ? "of uroce " : selection.device + " ");
}

}  // namespace uroce::statistics
