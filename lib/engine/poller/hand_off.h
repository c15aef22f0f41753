#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/contract.h"
#include "base/spsc_ring.h"
#include "port/port.h"

namespace uroce::engine {

/// Frames that pollers of one device receive for each other: one ring for each pair and direction. Its owner
/// is the poller; others only push into the rings that are theirs.
class HandOff {
 public:
  static constexpr size_t kFramesMax = 1024;  // waiting, of one sender

  /// Set-up, before the first turn: those of all pollers of the device by index, this one included.
  void join(uint16_t index, std::span<HandOff* const> all) {
    UROCE_ASSERT(index < all.size() && all[index] == this && from_.empty());
    index_ = index;
    all_.assign(all.begin(), all.end());
    from_.resize(all.size());
    for (size_t i = 0; i < all.size(); ++i)
      if (i != index) from_[i] = std::make_unique<SpscRing<port::RxFrame>>(kFramesMax);
  }

  [[nodiscard]] bool has_siblings() const { return from_.size() > 1; }

  // The poller, in its turns.

  /// Into the sibling's ring. False: that is full, and the frame still the caller's.
  bool push(uint16_t sibling, const port::RxFrame& frame) {
    UROCE_ASSERT(sibling < all_.size() && sibling != index_ && frame.data != nullptr);
    if (!all_[sibling]->from_[index_]->push(frame)) return false;
    burst_ |= uint64_t{1} << sibling;
    return true;
  }
  /// What was pushed since the last time may be announced.
  void announce() {
    // Relaxed: a hint for the threads that turn the siblings.
    if (burst_ != 0) announced_.fetch_or(std::exchange(burst_, 0), std::memory_order_relaxed);
  }
  /// Fills a prefix of `frames` with what siblings have pushed; how many. The next call begins with another
  /// sibling.
  size_t take(std::span<port::RxFrame> frames) {
    size_t count = 0;
    for (size_t i = 0; i < from_.size(); ++i) {
      const auto& ring = from_[(next_ + i) % from_.size()];
      if (ring == nullptr) continue;
      port::RxFrame* const to = frames.data() + count;
      count += ring->pop_burst(frames.size() - count, [to](size_t number, const port::RxFrame& frame) {
        UROCE_ASSERT(frame.data != nullptr);
        to[number] = frame;
      });
    }
    if (count > 0) next_ = (next_ + 1) % from_.size();
    return count;
  }

  /// Any thread: which siblings have been announced frames since the last call, bit i for sibling i.
  uint64_t take_announced() { return announced_.exchange(0, std::memory_order_relaxed); }

 private:
  uint16_t index_ = 0;
  std::vector<HandOff*> all_;
  std::vector<std::unique_ptr<SpscRing<port::RxFrame>>> from_;  // by the sender's index; none from ourselves
  size_t next_ = 0;                                             // whose frames come first the next time
  uint64_t burst_ = 0;                                          // bit i: frames went to sibling i
  std::atomic<uint64_t> announced_{0};
};

}  // namespace uroce::engine
