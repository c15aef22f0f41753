#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/tables/block_code.h"
#include "base/values/contract.h"
#include "base/values/time.h"
#include "faults/rule.h"

namespace uroce::faults {

/// A request that its responder is to refuse, and by which rule: the place of its counts.
struct OrderedRefusal {
  Refusal refusal = Refusal::kRnr;
  size_t slot = 0;
};

/// Copies of frames until they are due, in memory that is made once. Those that are due at the same time
/// keep the order in which they came.
class DelayedFrames {
 public:
  struct Frame {
    Instant due;
    uint64_t order;  // in which it came
    uint32_t slot;
    uint32_t length;
    bool has_icrc;
    BlockCode sender;
    std::optional<OrderedRefusal> refusal;
  };

  DelayedFrames(uint32_t frames_max, uint32_t frame_bytes)
      : frame_bytes_(frame_bytes),
        // Pages that no frame has touched cost nothing.
        memory_(std::make_unique_for_overwrite<std::byte[]>(size_t{frames_max} * frame_bytes)) {
    heap_.reserve(frames_max);
    free_.reserve(frames_max);
    for (uint32_t slot = frames_max; slot > 0; --slot) free_.push_back(slot - 1);
  }

  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] Instant first_due() const { return heap_.front().due; }
  [[nodiscard]] const Frame& first() const { return heap_.front(); }
  [[nodiscard]] std::span<const std::byte> bytes_of(const Frame& frame) const {
    return {memory_.get() + size_t{frame.slot} * frame_bytes_, frame.length};
  }

  /// False: there is no room.
  bool add(std::span<const std::byte> bytes, Instant due, bool has_icrc, BlockCode sender,
           std::optional<OrderedRefusal> refusal) {
    if (free_.empty() || bytes.size() > frame_bytes_) return false;
    const uint32_t slot = free_.back();
    free_.pop_back();
    std::ranges::copy(bytes, memory_.get() + size_t{slot} * frame_bytes_);
    heap_.push_back({due, ++came_, slot, static_cast<uint32_t>(bytes.size()), has_icrc, sender, refusal});
    std::ranges::push_heap(heap_, is_later);
    return true;
  }
  void take_first() {
    UROCE_ASSERT(!heap_.empty());
    std::ranges::pop_heap(heap_, is_later);
    free_.push_back(heap_.back().slot);
    heap_.pop_back();
  }
  /// All are due at `now`, in the order of before.
  void hurry(Instant now) {
    std::ranges::sort(heap_, [](const Frame& a, const Frame& b) { return is_later(b, a); });
    for (uint64_t order = 0; Frame & frame : heap_) {
      frame.due = now;
      frame.order = order++;
    }
    std::ranges::make_heap(heap_, is_later);
    came_ += heap_.size();
  }

 private:
  /// The first that is due is on top of the heap.
  static bool is_later(const Frame& one, const Frame& other) {
    return one.due != other.due ? one.due > other.due : one.order > other.order;
  }

  const size_t frame_bytes_;
  const std::unique_ptr<std::byte[]> memory_;
  std::vector<Frame> heap_;
  std::vector<uint32_t> free_;
  uint64_t came_ = 0;
};

}  // namespace uroce::faults
