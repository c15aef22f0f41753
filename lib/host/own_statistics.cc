#include "host/own_statistics.h"

#include <new>

#include "base/counters/counter_texts.h"

namespace uroce::host {

Result<OwnStatistics> OwnStatistics::make(uint32_t devices, uint32_t pollers) {
  if (devices > kShownDevicesMax || pollers > kShownPollersMax)
    return Error{E2BIG, "memory for statistics: too many devices or pollers"};
  const StatisticsLayout layout(devices, pollers);
  auto made = make_open_memory(kStatisticsName, layout.bytes());
  if (!made) return made.error();
  Mapping& memory = made->mapping;
  // Latencies are zeros already, and have pages only when something is measured.
  for (uint32_t i = 0; i < devices * pollers; ++i) new (layout.counters(memory.data(), 0, i)) Counters;
  auto* const header = new (memory.data()) StatisticsHeader{};
  header->counters = kCounterCount;
  header->counter_table = counter_table_hash();
  header->devices = devices;
  header->pollers = pollers;
  header->head = tool_memory(kStatisticsMagic, kStatisticsVersion, layout.bytes());
  return OwnStatistics(std::move(*made), layout);
}

OwnStatistics::~OwnStatistics() {
  if (memory_.data() != nullptr) header().question.end();
}

}  // namespace uroce::host
