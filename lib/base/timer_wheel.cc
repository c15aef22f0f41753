#include "base/timer_wheel.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace uroce {

TimerWheel::TimerWheel(Duration tick, size_t slots) : tick_(tick), heads_(slots) {
  assert(tick.ns > 0 && std::has_single_bit(slots));
  for (TimerNode& head : heads_) head.previous_ = head.next_ = &head;
}

void TimerWheel::arm(TimerNode& node, Instant deadline) {
  if (node.armed()) disarm(node);
  node.deadline_ = deadline;
  // Rounded up, so that a node is never found before its deadline; a deadline in the past goes to the slot
  // that is drained next.
  const int64_t due = std::max(current_tick_, (deadline.ns + tick_.ns - 1) / tick_.ns);
  TimerNode& head = heads_[slot_of(due)];
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
  node.previous_ = node.next_ = nullptr;
  --size_;
}

TimerNode* TimerWheel::pop_expired(Instant now) {
  const int64_t now_tick = now.ns / tick_.ns;
  if (size_ == 0) {
    current_tick_ = std::max(current_tick_, now_tick);
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
    if (current_tick_ >= now_tick) return nullptr;
  }
}

Instant TimerWheel::next_deadline() const {
  if (size_ == 0) return kNever;
  Instant earliest = kNever;
  for (const TimerNode& head : heads_) {
    for (const TimerNode* node = head.next_; node != &head; node = node->next_) {
      earliest = std::min(earliest, node->deadline_);
    }
  }
  return earliest;
}

}  // namespace uroce
