#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/threads/spsc_ring.h"
#include "base/values/contract.h"
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
    pushed_.resize(all.size());
    taken_.resize(all.size());
    for (size_t i = 0; i < all.size(); ++i)
      if (i != index) from_[i] = std::make_unique<SpscRing<port::RxFrame>>(kFramesMax);
  }

  [[nodiscard]] bool has_siblings() const { return from_.size() > 1; }

  // The poller, in its turns.

  /// Pushes a frame into the sibling's ring. False: that is full, and the frame still the caller's.
  bool push(uint16_t sibling, const port::RxFrame& frame) {
    UROCE_ASSERT(sibling < all_.size() && sibling != index_ && frame.data != nullptr);
    if (!all_[sibling]->from_[index_]->push(frame)) return false;
    ++pushed_[sibling];
    announce_to(sibling);
    return true;
  }
  /// There is something for the sibling besides frames.
  void announce_to(uint16_t sibling) { burst_ |= uint64_t{1} << sibling; }
  /// Frames pushed to the sibling so far.
  [[nodiscard]] uint64_t pushed_to(uint16_t sibling) const { return pushed_[sibling]; }
  /// Frames of the sibling that were taken so far.
  [[nodiscard]] uint64_t taken_from(uint16_t sibling) const { return taken_[sibling]; }
  /// Announces to siblings what was pushed to them since the last call.
  void announce() {
    // Relaxed: a hint for the threads that turn the siblings.
    if (burst_ != 0) announced_.fetch_or(std::exchange(burst_, 0), std::memory_order_relaxed);
  }
  /// Fills a prefix of `frames` with what siblings have pushed; how many. The next call begins with another
  /// sibling.
  size_t take(std::span<port::RxFrame> frames) {
    size_t count = 0;
    runs_ = 0;
    for (size_t i = 0; i < from_.size(); ++i) {
      const size_t sibling = (next_ + i) % from_.size();
      const auto& ring = from_[sibling];
      if (ring == nullptr) continue;
      port::RxFrame* const to = frames.data() + count;
      const size_t popped =
          ring->pop_burst(frames.size() - count, [to](size_t number, const port::RxFrame& frame) {
            UROCE_ASSERT(frame.data != nullptr);
            to[number] = frame;
          });
      if (popped == 0) continue;
      taken_[sibling] += popped;
      count += popped;
      run_[runs_++] = {static_cast<uint16_t>(sibling), count};
    }
    if (count > 0) next_ = (next_ + 1) % from_.size();
    return count;
  }

  /// Whose frame number `number` of the last take() was.
  [[nodiscard]] uint16_t sender_of(size_t number) const {
    size_t run = 0;
    while (run + 1 < runs_ && number >= run_[run].end) ++run;
    return run_[run].sibling;
  }

  /// Any thread: which siblings have been announced frames since the last call, bit i for sibling i.
  uint64_t take_announced() { return announced_.exchange(0, std::memory_order_relaxed); }

 private:
  /// Frames of the last take() that one sibling has pushed, behind those before.
  struct Run {
    uint16_t sibling;
    size_t end;
  };

  uint16_t index_ = 0;
  std::vector<HandOff*> all_;
  std::vector<std::unique_ptr<SpscRing<port::RxFrame>>> from_;  // by the sender's index; none from ourselves
  std::vector<uint64_t> pushed_;                                // by sibling
  std::vector<uint64_t> taken_;                                 // likewise
  std::array<Run, 64> run_{};
  size_t runs_ = 0;
  size_t next_ = 0;     // whose frames come first the next time
  uint64_t burst_ = 0;  // bit i: frames went to sibling i
  std::atomic<uint64_t> announced_{0};
};

}  // namespace uroce::engine
