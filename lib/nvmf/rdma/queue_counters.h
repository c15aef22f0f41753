#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace uroce::nvmf {

enum class RdmaQueueCounter : uint8_t {
  kCommands,  // that were answered
  kErrors,    // of these, not with success
  kBytesFromHost,
  kBytesToHost,
  kBufferWaits,  // commands that found no free buffer
  kSends,        // calls of ibv_post_send
  kCount
};
using RdmaQueueTotals = std::array<uint64_t, static_cast<size_t>(RdmaQueueCounter::kCount)>;

/// One queue's: written by its thread, read (possibly a little late) by any.
class RdmaQueueCounters {
 public:
  void add(RdmaQueueCounter counter, uint64_t n = 1) {
    std::atomic<uint64_t>& value = values_[static_cast<size_t>(counter)];
    value.store(value.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  [[nodiscard]] RdmaQueueTotals totals() const {
    RdmaQueueTotals all{};
    for (size_t i = 0; i < all.size(); ++i) all[i] = values_[i].load(std::memory_order_relaxed);
    return all;
  }

 private:
  std::array<std::atomic<uint64_t>, static_cast<size_t>(RdmaQueueCounter::kCount)> values_{};
};

}  // namespace uroce::nvmf
