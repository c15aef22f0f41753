// A hierarchical wheel: four levels, each as coarse as a whole turn of the one below. A timer is touched once
// for each level that its deadline is away, kMovesMax of them in a call beside the expired ones. One level
// alone would look at the ACK timers of very many queue pairs in each revolution. Levels that fire at their
// own coarseness, as Linux has them, would be late by an eighth.
#include "base/tables/timer_wheel.h"

#include <algorithm>
#include <bit>

#include "base/values/contract.h"

namespace uroce {

TimerWheel::TimerWheel(Duration tick, size_t slots)
    : tick_(tick),
      slots_(slots),
      slot_bits_(static_cast<unsigned>(std::countr_zero(slots))),
      words_((slots + kSlotsPerWord - 1) / kSlotsPerWord),
      heads_(kLevels * slots + 1),
      used_(kLevels * words_ + 1) {
  UROCE_ASSERT(tick.ns > 0 && slots > 1 && std::has_single_bit(slots));
  for (TimerNode& head : heads_) head.previous_ = head.next_ = &head;
}

void TimerWheel::note_used(size_t list) {
  const size_t slot = list % slots_;
  used_word(list / slots_, slot) |= uint64_t{1} << slot % kSlotsPerWord;
}

void TimerWheel::note_unused(size_t list) {
  const size_t slot = list % slots_;
  used_word(list / slots_, slot) &= ~(uint64_t{1} << slot % kSlotsPerWord);
}

void TimerWheel::arm(TimerNode& node, Instant deadline) {
  if (node.armed()) disarm(node);
  node.deadline_ = deadline;
  quiet_until_ = std::min(quiet_until_, place(node));
  ++size_;
}

/// Into the lowest level that reaches as far as its deadline. What is beyond all of them waits in the last
/// slot of the highest, and is placed anew from there. When there is something to do for the node.
Instant TimerWheel::place(TimerNode& node) {
  // Rounded up, so that a node is never found before its deadline; a deadline in the past goes to the slot
  // that is drained next.
  const int64_t ticks = node.deadline_.ns / tick_.ns + (node.deadline_.ns % tick_.ns > 0 ? 1 : 0);
  const int64_t farthest = (int64_t{1} << shift_of(kLevels)) - 1;
  const int64_t distance = std::clamp<int64_t>(ticks - current_tick_, 0, farthest);
  size_t level = 0;
  while (distance >> shift_of(level + 1) != 0) ++level;
  const size_t list = level * slots_ + slot_of(level, current_tick_ + distance);
  note_used(list);
  TimerNode& head = heads_[list];
  node.previous_ = head.previous_;
  node.next_ = &head;
  head.previous_->next_ = &node;
  head.previous_ = &node;
  if (level == 0) return node.deadline_;
  return start_of((current_tick_ + distance) >> shift_of(level) << shift_of(level));
}

void TimerWheel::disarm(TimerNode& node) {
  if (!node.armed()) return;
  remove(node);
  --size_;
}

void TimerWheel::remove(TimerNode& node) {
  node.previous_->next_ = node.next_;
  node.next_->previous_ = node.previous_;
  // Between two times the same neighbour it was the only one; that neighbour is the list's head.
  if (node.previous_ == node.next_) note_unused(static_cast<size_t>(node.next_ - heads_.data()));
  node.previous_ = node.next_ = nullptr;
}

TimerNode* TimerWheel::search(Instant now) {
  const int64_t now_tick = now.ns / tick_.ns;
  for (uint32_t moves = 0;;) {
    if (!move_down(moves)) return nullptr;
    TimerNode& head = heads_[slot_of(0, current_tick_)];
    if (TimerNode* const node = head.next_; node != &head && node->deadline_ <= now) {
      disarm(*node);
      return node;
    }
    const int64_t next = std::min(next_used(0, current_tick_ + (is_empty(head) ? 1 : 0)), next_move());
    if (next > now_tick) {
      // Nothing is in between, so that all that is armed lies as if the tick had been entered.
      current_tick_ = std::max(current_tick_, now_tick);
      quiet_until_ = next == kNoTick ? kNever : start_of(next);
      return nullptr;
    }
    enter(next);
  }
}

/// What is in the slots of higher levels that begin with the tick is to move down.
void TimerWheel::enter(int64_t tick) {
  UROCE_ASSERT(tick > current_tick_ && is_empty(moving()));
  current_tick_ = tick;
  for (size_t level = kLevels - 1; level > 0; --level) {
    if ((tick & ((int64_t{1} << shift_of(level)) - 1)) != 0) continue;
    const size_t list = level * slots_ + slot_of(level, tick);
    TimerNode& head = heads_[list];
    if (is_empty(head)) continue;
    head.next_->previous_ = moving().previous_;
    moving().previous_->next_ = head.next_;
    head.previous_->next_ = &moving();
    moving().previous_ = head.previous_;
    head.previous_ = head.next_ = &head;
    note_unused(list);
  }
}

/// False: there is more to move than may be in one call.
bool TimerWheel::move_down(uint32_t& moves) {
  for (; !is_empty(moving()); ++moves) {
    if (moves == kMovesMax) return false;
    TimerNode& node = *moving().next_;
    remove(node);
    place(node);
  }
  return true;
}

/// The tick that the earliest used slot of the level begins with, of those from index `first` on; kNoTick:
/// none is used.
int64_t TimerWheel::next_used(size_t level, int64_t first) const {
  const auto revolution = static_cast<int64_t>(slots_);
  for (int64_t at = first; at < first + revolution;) {
    const size_t slot = static_cast<size_t>(at) & (slots_ - 1);
    const uint64_t later = used_[level * words_ + slot / kSlotsPerWord] >> slot % kSlotsPerWord;
    if (later != 0) {
      const int64_t found = at + std::countr_zero(later);
      return found < first + revolution ? found << shift_of(level) : kNoTick;
    }
    // On to the next word, or around.
    at += static_cast<int64_t>(std::min(kSlotsPerWord, slots_) - slot % kSlotsPerWord);
  }
  return kNoTick;
}

/// When the next slot of a higher level begins that is used.
int64_t TimerWheel::next_move() const {
  int64_t next = kNoTick;
  for (size_t level = 1; level < kLevels; ++level)
    next = std::min(next, next_used(level, (current_tick_ >> shift_of(level)) + 1));
  return next;
}

Instant TimerWheel::next_deadline() const {
  if (size_ == 0) return kNever;
  if (!is_empty(moving())) return start_of(current_tick_);
  Instant earliest = kNever;
  if (const int64_t next = next_move(); next != kNoTick) earliest = start_of(next);
  if (const int64_t tick = next_used(0, current_tick_); tick != kNoTick) {
    // Others in later slots are later.
    const TimerNode& head = heads_[slot_of(0, tick)];
    for (const TimerNode* node = head.next_; node != &head; node = node->next_)
      earliest = std::min(earliest, node->deadline_);
  }
  return earliest;
}

}  // namespace uroce
