#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace uroce {

/// What a fault that was ordered has done to packets.
enum class FaultCount : uint8_t {
  kSeen,  // packets that it concerns, whatever became of them
  kLost,
  kDelayed,
  kReordered,
  kDuplicated,
  kCorrupted,
  kMarked,
  kRefused,
  kOverflowed,  // lost because more packets were to be delayed than there is room for
  kCount
};

/// Counts of one fault: written by one thread, read by any, also in another process.
struct FaultCounts {
  std::atomic<uint32_t> id;  // of the fault; 0: none
  std::array<std::atomic<uint64_t>, static_cast<size_t>(FaultCount::kCount)> counts;

  void add(FaultCount count) {
    std::atomic<uint64_t>& value = counts[static_cast<size_t>(count)];
    // Relaxed: there is one writer, and readers only need a whole value.
    value.store(value.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  [[nodiscard]] uint64_t read(FaultCount count) const {
    return counts[static_cast<size_t>(count)].load(std::memory_order_relaxed);  // as in add()
  }
};

}  // namespace uroce
