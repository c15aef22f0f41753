#pragma once

#include <algorithm>
#include <cstdint>

#include "apps/perf/plan.h"

namespace uroce::perf {

/// Where message number n lives: the same offset in the source area of the one end and in the target area of
/// the other. Slots are taken in turn; behind each lies a gap that nothing may write to.
struct Layout {
  static constexpr uint64_t kAreaBytesMax = 32u << 20;
  static constexpr uint64_t kGapBytes = 64;

  uint64_t size = 0;
  uint64_t stride = 0;
  uint32_t slots = 1;

  static constexpr Layout of(uint64_t size, uint32_t slots_wanted) {
    Layout layout{.size = size};
    layout.stride = (size + 63) / 64 * 64 + kGapBytes;
    layout.slots = static_cast<uint32_t>(
        std::clamp<uint64_t>(kAreaBytesMax / layout.stride, 1, std::max<uint32_t>(slots_wanted, 1)));
    return layout;
  }

  [[nodiscard]] constexpr uint64_t offset(uint64_t message) const { return message % slots * stride; }
  [[nodiscard]] constexpr uint64_t area_bytes() const { return stride * slots; }
};

/// Messages outstanding: the plan's depth, but never so many bytes that draining takes longer than measuring.
constexpr uint32_t depth_for(const Plan& plan, uint64_t size) {
  constexpr uint64_t kBytesOutstandingMax = 64u << 20;
  return std::min(plan.depth, static_cast<uint32_t>(std::max<uint64_t>(2, kBytesOutstandingMax / size)));
}

/// Bytes of one area that every round of the plan fits into.
inline uint64_t area_bytes_for(const Plan& plan) {
  uint64_t bytes = 0;
  for (const uint64_t size : plan.sizes) {
    bytes = std::max(bytes, Layout::of(size, depth_for(plan, size)).area_bytes());
  }
  return bytes;
}

}  // namespace uroce::perf
