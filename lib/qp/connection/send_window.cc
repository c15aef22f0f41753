// Decision: a long READ is requested in parts with fixed borders. Responses cannot overrun a receive ring,
// and the missing rest lies inside the original request. Short parts let the window of congestion control
// act; cost: a request for every few packets.
#include "qp/connection/send_window.h"

#include "base/values/contract.h"

namespace uroce::qp {

SendWindow::SendWindow(queue::SendQueue& queue) : queue_(queue) { reset(Psn()); }

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
  const Psn read_end = reads_count_ > 0 ? read_ends_[reads_first_] : Psn();
  const Place place{next_, number_, message_, reads_count_, read_end};
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
  if (place.reads > 0) read_ends_[reads_first_] = place.read_end;
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

queue::SendOperation SendWindow::newest_operation() {
  UROCE_ASSERT(oldest_ != sent_end_);
  if (unanswered() == 0 || (current_started() && current_packet(current()) > 0)) return current().operation;
  // Local operations in between have no packets.
  uint32_t number = number_ - 1;
  while (queue_.at(number).packets == 0) --number;
  return queue_.at(number).operation;
}

}  // namespace uroce::qp
