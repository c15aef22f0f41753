#pragma once

#include <algorithm>
#include <cstdint>

#include "apps/perf/plan/plan.h"

namespace uroce::perf {

/// Where message number n lives: the same offset in the source area of the one end and in the target area of
/// the other. Slots are taken in turn; behind each lies a gap that nothing may write to. With a lead there is
/// room in front of each for what a device puts there.
struct Layout {
  static constexpr uint64_t kAreaBytesMax = 32u << 20;
  static constexpr uint64_t kGapBytes = 64;
  static constexpr uint64_t kDatagramLead = 64;  // for the 40 bytes in front of a message of UD

  uint64_t size = 0;
  uint64_t stride = 0;
  uint32_t slots = 1;
  uint64_t lead = 0;

  static constexpr Layout of(uint64_t size, uint32_t slots_wanted, uint64_t lead = 0) {
    Layout layout{.size = size, .lead = lead};
    layout.stride = lead + (size + 63) / 64 * 64 + kGapBytes;
    layout.slots = static_cast<uint32_t>(
        std::clamp<uint64_t>(kAreaBytesMax / layout.stride, 1, std::max<uint32_t>(slots_wanted, 1)));
    return layout;
  }

  [[nodiscard]] constexpr uint64_t offset(uint64_t message) const { return message % slots * stride + lead; }
  /// Bytes of a message and its gap.
  [[nodiscard]] constexpr uint64_t extent() const { return stride - lead; }
  [[nodiscard]] constexpr uint64_t area_bytes() const { return stride * slots; }
};

/// Offsets of messages that follow each other, with one division for all of them.
class Offsets {
 public:
  Offsets(const Layout& layout, uint64_t first)
      : layout_(layout), slot_(static_cast<uint32_t>(first % layout.slots)) {}

  uint64_t next() {
    const uint64_t offset = slot_ * layout_.stride + layout_.lead;
    slot_ = slot_ + 1 == layout_.slots ? 0 : slot_ + 1;
    return offset;
  }

 private:
  const Layout layout_;
  uint32_t slot_;
};

constexpr uint64_t lead_of(Service service) { return service == Service::kUd ? Layout::kDatagramLead : 0; }

/// Messages outstanding: the plan's depth, but never so many bytes that draining takes longer than measuring.
constexpr uint32_t depth_for(const Plan& plan, uint64_t size) {
  constexpr uint64_t kBytesOutstandingMax = 64u << 20;
  return std::min(plan.depth, static_cast<uint32_t>(std::max<uint64_t>(2, kBytesOutstandingMax / size)));
}

/// Bytes of one area that every round of the plan fits into.
inline uint64_t area_bytes_for(const Plan& plan) {
  uint64_t bytes = 0;
  for (const uint64_t size : plan.sizes) {
    bytes = std::max(bytes, Layout::of(size, depth_for(plan, size), lead_of(plan.service)).area_bytes());
  }
  return bytes;
}

}  // namespace uroce::perf
