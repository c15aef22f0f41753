#include "nvmf_target/statistics.h"

#include <fmt/format.h>

namespace uroce::nvmf_target {
namespace {

using nvmf::RdmaQueueCounter;

uint64_t count(const nvmf::RdmaQueueTotals& totals, RdmaQueueCounter counter) {
  return totals[static_cast<size_t>(counter)];
}

}  // namespace

std::string describe(std::span<const nvmf::RdmaQueueReport> queues) {
  std::string out = fmt::format("{:<24} {:>5} {:>12} {:>10} {:>16} {:>16} {:>10}  {}\n", "host", "queue",
                                "commands", "errors", "bytes from host", "bytes to host", "waits", "name");
  for (const nvmf::RdmaQueueReport& queue : queues) {
    out += fmt::format("{:<24} {:>5} {:>12} {:>10} {:>16} {:>16} {:>10}  {}\n", queue.host, queue.qid,
                       count(queue.totals, RdmaQueueCounter::kCommands),
                       count(queue.totals, RdmaQueueCounter::kErrors),
                       count(queue.totals, RdmaQueueCounter::kBytesFromHost),
                       count(queue.totals, RdmaQueueCounter::kBytesToHost),
                       count(queue.totals, RdmaQueueCounter::kBufferWaits), queue.host_nqn);
  }
  return out;
}

std::string describe(const nvmf::RdmaEventTotals& events) {
  std::string out;
  for (size_t i = 0; i < events.size(); ++i) {
    if (events[i] != 0)
      out += fmt::format("{:<40} {:>12}\n", nvmf::label(static_cast<nvmf::RdmaEvent>(i)), events[i]);
  }
  return out;
}

}  // namespace uroce::nvmf_target
