#include "qp/send_window.h"

namespace uroce::qp {

SendWindow::SendWindow(queue::SendQueue& queue, uint8_t reads_max)
    : queue_(queue), read_ends_(reads_max > 0 ? reads_max : 1u) {
  reset(Psn());
}

void SendWindow::reset(Psn first) {
  oldest_ = next_ = sent_end_ = unassigned_ = first;
  number_ = started_ = queue_.retired();
  reads_first_ = reads_count_ = 0;
  message_ = head_message_ = Psn(1);
  limited_ = false;
}

void SendWindow::retire_executed() {
  assert(head_is_executed());
  const bool current = current_is_head();
  queue_.retire();
  if (current) number_ = queue_.retired();
}

void SendWindow::read_sent() {
  assert(reads_count_ < read_ends_.size());
  read_ends_[(reads_first_ + reads_count_++) % read_ends_.size()] = next_;
}

void SendWindow::rewind() {
  next_ = oldest_;
  number_ = queue_.retired();
  message_ = head_message_;
  reads_count_ = 0;
}

}  // namespace uroce::qp
