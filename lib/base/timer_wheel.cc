#include "base/timer_wheel.h"

#include <algorithm>
#include <bit>

#include "base/contract.h"

namespace uroce {

TimerWheel::TimerWheel(Duration tick, size_t slots)
    : tick_(tick), heads_(slots), used_((slots + kSlotsPerWord - 1) / kSlotsPerWord) {
  UROCE_ASSERT(tick.ns > 0 && std::has_single_bit(slots));
  for (TimerNode& head : heads_) head.previous_ = head.next_ = &head;
}

void TimerWheel::arm(TimerNode& node, Instant deadline) {
  if (node.armed()) disarm(node);
  node.deadline_ = deadline;
  // Rounded up, so that a node is never found before its deadline; a deadline in the past goes to the slot
  // that is drained next.
  const int64_t due = std::max(current_tick_, (deadline.ns + tick_.ns - 1) / tick_.ns);
  if (due == current_tick_) quiet_until_ = std::min(quiet_until_, deadline);
  TimerNode& head = heads_[slot_of(due)];
  note_used(slot_of(due));
  node.previous_ = head.previous_;
  node.next_ = &head;
  head.previous_->next_ = &node;
  head.previous_ = &node;
  ++size_;
}

void TimerWheel::disarm(TimerNode& node) {
  if (!node.armed()) return;
  node.previous_->next_ = node.next_;
  node.next_->previous_ = node.previous_;
  // Between two times the same neighbour it was the only one; that neighbour is the list's head.
  if (node.previous_ == node.next_) note_unused(static_cast<size_t>(node.next_ - heads_.data()));
  node.previous_ = node.next_ = nullptr;
  --size_;
}

TimerNode* TimerWheel::search(Instant now) {
  const int64_t now_tick = now.ns / tick_.ns;
  if (size_ == 0) {
    current_tick_ = std::max(current_tick_, now_tick);
    quiet_until_ = Instant{(current_tick_ + 1) * tick_.ns};
    return nullptr;
  }
  // After a long pause one revolution visits every slot; more would visit them again.
  current_tick_ = std::max(current_tick_, now_tick - static_cast<int64_t>(heads_.size()));
  for (;; ++current_tick_) {
    TimerNode& head = heads_[slot_of(current_tick_)];
    for (TimerNode* node = head.next_; node != &head; node = node->next_) {
      if (node->deadline_ > now) continue;
      disarm(*node);
      return node;
    }
    if (current_tick_ >= now_tick) {
      // What is not due yet lies in a later slot, or waits there for a later round.
      quiet_until_ = Instant{(current_tick_ + 1) * tick_.ns};
      return nullptr;
    }
  }
}

int64_t TimerWheel::next_used(int64_t tick) const {
  const auto revolution = static_cast<int64_t>(heads_.size());
  for (int64_t at = tick; at < tick + revolution;) {
    const size_t slot = slot_of(at);
    const uint64_t later = used_[slot / kSlotsPerWord] >> slot % kSlotsPerWord;
    if (later != 0) return std::min(at + std::countr_zero(later), tick + revolution);
    // On to the next word, or around.
    at += static_cast<int64_t>(std::min(kSlotsPerWord, heads_.size()) - slot % kSlotsPerWord);
  }
  return tick + revolution;
}

Instant TimerWheel::next_deadline() const {
  if (size_ == 0) return kNever;
  const int64_t end = current_tick_ + static_cast<int64_t>(heads_.size());
  for (int64_t tick = next_used(current_tick_); tick < end; tick = next_used(tick + 1)) {
    const TimerNode& head = heads_[slot_of(tick)];
    Instant earliest = kNever;
    for (const TimerNode* node = head.next_; node != &head; node = node->next_) {
      earliest = std::min(earliest, node->deadline_);
    }
    // Others in later slots are later, unless they are overdue, and then this one is, too.
    if (earliest <= Instant{tick * tick_.ns}) return earliest;
  }
  // All wait for a later revolution.
  return Instant{(end - 1) * tick_.ns};
}

}  // namespace uroce
