#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/counters/counters.h"
#include "base/values/result.h"
#include "host/shared_memory.h"
#include "host/statistics_format.h"

namespace uroce::host {

/// What this process shows of itself; its end takes it away from readers.
class OwnStatistics {
 public:
  /// EMFILE, ENOMEM, ENOSYS; E2BIG: more devices or pollers than the format has.
  static Result<OwnStatistics> make(uint32_t devices, uint32_t pollers);
  OwnStatistics(OwnStatistics&&) = default;
  OwnStatistics& operator=(OwnStatistics&&) = default;
  ~OwnStatistics();

  [[nodiscard]] StatisticsHeader& header() { return *reinterpret_cast<StatisticsHeader*>(memory_.data()); }
  [[nodiscard]] DeviceShown& device(uint32_t index) { return *layout_.device(memory_.data(), index); }
  [[nodiscard]] Counters& counters(uint32_t device, uint32_t poller) {
    return *layout_.counters(memory_.data(), device, poller);
  }
  [[nodiscard]] Latencies& latencies(uint32_t device, uint32_t poller) {
    return *layout_.latencies(memory_.data(), device, poller);
  }
  [[nodiscard]] std::span<RegionRow> regions() { return layout_.regions(memory_.data()); }
  [[nodiscard]] std::span<QueuePairRow> rows() { return layout_.rows(memory_.data()); }

 private:
  OwnStatistics(OpenMemory memory, StatisticsLayout layout)
      : descriptor_(std::move(memory.descriptor)), memory_(std::move(memory.mapping)), layout_(layout) {}

  HeldDescriptor descriptor_;
  Mapping memory_;
  StatisticsLayout layout_;
};

}  // namespace uroce::host
