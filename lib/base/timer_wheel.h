#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace uroce {

/// A timer that lives inside its owner. Armed in at most one wheel.
class TimerNode {
 public:
  [[nodiscard]] bool armed() const { return previous_ != nullptr; }
  [[nodiscard]] Instant deadline() const { return deadline_; }

 private:
  friend class TimerWheel;
  TimerNode* previous_ = nullptr;
  TimerNode* next_ = nullptr;
  Instant deadline_{};
};

/// Hashed timer wheel: O(1) arm and disarm, no allocation after construction. Deadlines further away than one
/// revolution stay in their slot until their round comes. Single-threaded; time only from arguments.
class TimerWheel {
 public:
  /// `slots` is a power of two; a timer fires within one `tick` after its deadline, never before it.
  TimerWheel(Duration tick, size_t slots);
  TimerWheel(const TimerWheel&) = delete;
  TimerWheel& operator=(const TimerWheel&) = delete;

  /// Arms, or moves an armed node to the new deadline.
  void arm(TimerNode& node, Instant deadline);
  void disarm(TimerNode& node);

  /// Removes one expired node and returns it, or nullptr when nothing (more) is due at `now`.
  TimerNode* pop_expired(Instant now) {
    if (now < quiet_until_) [[likely]]
      return nullptr;
    return search(now);
  }

  /// Earliest moment at which pop_expired could return something (a lower bound), kNever when empty. Looks at
  /// used slots only, up to the first that holds a node of this revolution.
  [[nodiscard]] Instant next_deadline() const;

  [[nodiscard]] size_t size() const { return size_; }

 private:
  [[nodiscard]] size_t slot_of(int64_t tick) const { return static_cast<size_t>(tick) & (heads_.size() - 1); }

  static constexpr size_t kSlotsPerWord = 64;

  TimerNode* search(Instant now);

  /// The earliest tick from `tick` on whose slot is used, less than one revolution away; nothing is used:
  /// a revolution away.
  [[nodiscard]] int64_t next_used(int64_t tick) const;
  void note_used(size_t slot) { used_[slot / kSlotsPerWord] |= uint64_t{1} << slot % kSlotsPerWord; }
  void note_unused(size_t slot) { used_[slot / kSlotsPerWord] &= ~(uint64_t{1} << slot % kSlotsPerWord); }

  Duration tick_;
  std::vector<TimerNode> heads_;    // circular lists
  std::vector<uint64_t> used_;      // bit i: list i is not empty
  int64_t current_tick_ = 0;        // every earlier tick has been drained
  Instant quiet_until_{INT64_MIN};  // nothing is due before
  size_t size_ = 0;
};

}  // namespace uroce
