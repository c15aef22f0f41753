#include "qp/send_window.h"

namespace uroce::qp {

namespace {

/// As the peer counts them: a READ is as many as the parts in which it is asked for.
uint32_t messages_of(const queue::SendRequest& request) {
  if (!is_read(request.operation)) return 1;
  return (request.packets + SendWindow::kReadPackets - 1) / SendWindow::kReadPackets;
}

}  // namespace

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

void SendWindow::start(uint32_t packets) {
  assert(!current_started());
  queue::SendRequest& request = current();
  request.first_psn = unassigned_;
  request.packets = packets;
  unassigned_ += packets;
  ++started_;
}

void SendWindow::sent(uint32_t psns) {
  assert(current_started() && current_packet() + psns <= current().packets);
  const bool done = current_packet() + psns == current().packets;
  next_ += psns;
  if (next_.after(sent_end_)) sent_end_ = next_;
  if (!done) return;
  message_ += messages_of(current());
  ++number_;
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

void SendWindow::answered(uint32_t psns, bool done) {
  oldest_ += psns;
  if (done) {
    head_message_ += messages_of(head());
    queue_.retire();
  }
  while (reads_count_ > 0 && !read_ends_[reads_first_].after(oldest_)) {
    reads_first_ = (reads_first_ + 1) % static_cast<uint32_t>(read_ends_.size());
    --reads_count_;
  }
  // What was answered while it was waiting to be sent again need not be sent.
  if (next_.before(oldest_)) {
    next_ = oldest_;
    number_ = queue_.retired();
    message_ = head_message_;
  }
}

void SendWindow::rewind() {
  next_ = oldest_;
  number_ = queue_.retired();
  message_ = head_message_;
  reads_count_ = 0;
}

}  // namespace uroce::qp
