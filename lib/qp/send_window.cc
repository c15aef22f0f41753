#include "qp/send_window.h"

#include <algorithm>
#include <bit>

#include "base/contract.h"

namespace uroce::qp {

SendWindow::SendWindow(queue::SendQueue& queue, uint8_t reads_max)
    : queue_(queue),
      read_ends_(std::bit_ceil(std::max<uint32_t>(reads_max, 1))),
      read_mask_(static_cast<uint32_t>(read_ends_.size()) - 1) {
  UROCE_ASSERT(std::has_single_bit(read_ends_.size()));
  reset(Psn());
}

void SendWindow::reset(Psn first) {
  oldest_ = next_ = sent_end_ = unassigned_ = first;
  number_ = started_ = queue_.retired();
  executed_ = 0;
  reads_first_ = reads_count_ = 0;
  message_ = head_message_ = Msn(1);
  limited_ = false;
  UROCE_ASSERT(idle() && is_sound());
}

void SendWindow::executed() {
  start(current(), 0);
  ++executed_;
  pass();
  UROCE_ASSERT(is_sound());
}

void SendWindow::retire_executed() {
  UROCE_ASSERT(head_is_executed());
  const bool current = current_is_head();
  --executed_;
  queue_.retire();
  if (current) number_ = queue_.retired();
}

void SendWindow::rewind() {
  next_ = oldest_;
  number_ = queue_.retired();
  message_ = head_message_;
  reads_count_ = 0;
  UROCE_ASSERT(is_sound());
}

SendWindow::Place SendWindow::visit_oldest() {
  UROCE_ASSERT(unanswered() > 0 && !queue::is_local(head().operation));
  const Place place{next_, number_, message_, reads_count_, read_ends_[reads_first_ & read_mask_]};
  next_ = oldest_;
  number_ = queue_.retired();
  message_ = head_message_;
  reads_count_ = 0;
  return place;
}

void SendWindow::return_to(const Place& place) {
  next_ = place.next;
  number_ = place.number;
  message_ = place.message;
  reads_count_ = place.reads;
  read_ends_[reads_first_ & read_mask_] = place.read_end;
  UROCE_ASSERT(is_sound());
}

void SendWindow::step_back() {
  UROCE_ASSERT(unanswered() > 0);
  const bool within = current_started() && current_packet(current()) > 0;
  next_ = next_ - 1u;
  UROCE_ASSERT(reads_count_ == 0);
  if (within) return;
  // Local operations in between have no packets.
  do {
    --number_;
  } while (current().packets == 0);
  message_ = message_ - 1u;
  UROCE_ASSERT(is_sound());
}

}  // namespace uroce::qp
