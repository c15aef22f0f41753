#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/values/time.h"

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

/// Hierarchical timer wheel (Varghese and Lauck, 1987, scheme 7): a slot of each level but the lowest stands
/// for a whole revolution of the level below. Nodes move down when their slot is entered, so that each is
/// touched once for each level, however many there are and however far away their deadlines. O(1) arm and
/// disarm, no allocation after construction. Single-threaded; time only from arguments.
class TimerWheel {
 public:
  /// `slots` of each level, a power of two; a timer fires within one `tick` after its deadline, never before
  /// it.
  TimerWheel(Duration tick, size_t slots);
  TimerWheel(const TimerWheel&) = delete;
  TimerWheel& operator=(const TimerWheel&) = delete;

  /// Arms, or moves an armed node to the new deadline.
  void arm(TimerNode& node, Instant deadline);
  void disarm(TimerNode& node);

  /// Removes one expired node and returns it, or nullptr when nothing (more) is due at `now`, or when as many
  /// nodes have moved down as may in one call: the next one goes on.
  TimerNode* pop_expired(Instant now) {
    if (now < quiet_until_) [[likely]]
      return nullptr;
    return search(now);
  }

  /// Earliest moment at which pop_expired could return something, kNever when empty. Where a slot of a higher
  /// level begins nodes are to move down, so it may be too early, but never late by a tick.
  [[nodiscard]] Instant next_deadline() const;

  [[nodiscard]] size_t size() const { return size_; }

 private:
  static constexpr size_t kLevels = 4;
  static constexpr size_t kSlotsPerWord = 64;
  /// Nodes that one call moves down: they may be cold, and a turn must not take long.
  static constexpr uint32_t kMovesMax = 64;
  static constexpr int64_t kNoTick = INT64_MAX;

  /// How many bits of a tick's number are below the slots of the level.
  [[nodiscard]] unsigned shift_of(size_t level) const { return static_cast<unsigned>(level) * slot_bits_; }
  [[nodiscard]] size_t slot_of(size_t level, int64_t tick) const {
    return static_cast<size_t>(tick >> shift_of(level)) & (slots_ - 1);
  }
  [[nodiscard]] uint64_t& used_word(size_t level, size_t slot) {
    return used_[level * words_ + slot / kSlotsPerWord];
  }
  void note_used(size_t list);
  void note_unused(size_t list);
  [[nodiscard]] TimerNode& moving() { return heads_[kLevels * slots_]; }
  [[nodiscard]] const TimerNode& moving() const { return heads_[kLevels * slots_]; }
  [[nodiscard]] static bool is_empty(const TimerNode& head) { return head.next_ == &head; }

  Instant place(TimerNode& node);
  void remove(TimerNode& node);
  TimerNode* search(Instant now);
  void enter(int64_t tick);
  bool move_down(uint32_t& moves);
  [[nodiscard]] int64_t next_used(size_t level, int64_t first) const;
  [[nodiscard]] int64_t next_move() const;
  [[nodiscard]] Instant start_of(int64_t tick) const { return Instant{tick * tick_.ns}; }

  const Duration tick_;
  const size_t slots_;
  const unsigned slot_bits_;
  const size_t words_;              // of `used_`, for each level
  std::vector<TimerNode> heads_;    // circular lists, level by level; the last: nodes that are to move down
  std::vector<uint64_t> used_;      // bit i of a level: its list i is not empty
  int64_t current_tick_ = 0;        // every earlier tick has been drained
  Instant quiet_until_{INT64_MIN};  // nothing is due before
  size_t size_ = 0;
};

}  // namespace uroce
