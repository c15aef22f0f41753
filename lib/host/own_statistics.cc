#include "host/own_statistics.h"

#include <errno.h>
#include <unistd.h>

#include <new>

#include "base/counter_texts.h"
#include "host/control.h"
#include "host/process_start.h"

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
  header->version = kStatisticsVersion;
  header->counters = kCounterCount;
  header->counter_table = counter_table_hash();
  header->bytes = layout.bytes();
  header->devices = devices;
  header->pollers = pollers;
  header->pid = getpid();
  header->started_ticks = start_of_process(getpid()).value_or(0);
  set_text(header->program, program_invocation_short_name);
  header->magic = kStatisticsMagic;
  return OwnStatistics(std::move(*made), layout);
}

OwnStatistics::~OwnStatistics() {
  // Release: a reader that sees it closed reads nothing more.
  if (memory_.data() != nullptr) header().open.store(0, std::memory_order_release);
}

}  // namespace uroce::host
