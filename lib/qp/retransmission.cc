#include "qp/retransmission.h"

#include <algorithm>

#include "base/contract.h"
#include "qp/completion_report.h"
#include "qp/transport_timers.h"

namespace uroce::qp {

using queue::CompletionStatus;

void Retransmission::reset() {
  ack_deadline_ = rnr_until_ = kNever;
  retries_ = rnr_retries_ = silences_ = 0;
  rewound_ = probing_ = false;
  window_packets_ = SendWindow::kPackets;
  answered_since_step_ = 0;
}

void Retransmission::sent(Instant now) {
  UROCE_ASSERT(window_.oldest() != window_.sent_end());
  rnr_until_ = kNever;
  start_ack_timer(now);
}

bool Retransmission::missing(Turn& turn) {
  if (rewound_) return false;
  retry(turn);
  return true;
}

void Retransmission::receiver_not_ready(Turn& turn, uint8_t timer_code) {
  UROCE_ASSERT(window_.oldest() != window_.sent_end());
  if (holds_back(turn.now)) return;  // nothing went out since the last one: the network doubled it
  const uint8_t limit = connection_.attributes.rnr_retry;
  if (limit != kRnrRetryForEver && ++rnr_retries_ > limit) {
    fail_oldest_send(connection_, turn, CompletionStatus::kRnrRetryExceeded);
    return;
  }
  // The peer is there and answers: what it may have missed before does not count any more.
  retries_ = 0;
  rewound_ = false;
  probing_ = true;
  window_.rewind();
  ack_deadline_ = kNever;
  rnr_until_ = turn.now + rnr_wait(timer_code);
}

/// Something that was sent is not answered.
void Retransmission::retry(Turn& turn) {
  UROCE_ASSERT(window_.oldest() != window_.sent_end() && connection_.reliable);
  ack_deadline_ = kNever;
  if (++retries_ > connection_.attributes.retry_count) {
    turn.counters.add(Counter::kRetryExceeded);
    fail_oldest_send(connection_, turn, CompletionStatus::kRetryExceeded);
    return;
  }
  shrink_window();
  window_.rewind();
  rewound_ = true;
}

void Retransmission::shrink_window() {
  window_packets_ = std::max(kWindowLeast, window_packets_ / 2);
  answered_since_step_ = 0;
  UROCE_ASSERT(window_packets_ <= SendWindow::kPackets);
}

void Retransmission::grow_window(uint32_t answered) {
  UROCE_ASSERT(window_packets_ >= kWindowLeast && answered_since_step_ < kAnsweredPerStep);
  answered_since_step_ += answered;
  window_packets_ = std::min(SendWindow::kPackets, window_packets_ + answered_since_step_ / kAnsweredPerStep);
  answered_since_step_ %= kAnsweredPerStep;
}

void Retransmission::expire(Turn& turn) {
  if (rnr_until_ != kNever) {
    if (turn.now >= rnr_until_) rnr_until_ = kNever;
    return;
  }
  if (turn.now < ack_deadline_) return;
  turn.counters.add(Counter::kAckTimeout);
  ++silences_;
  retry(turn);
  // A NAK that answers the retransmission is news.
  rewound_ = false;
  probing_ = true;
}

}  // namespace uroce::qp
