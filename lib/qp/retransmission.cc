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
  named_ = peer_keeps_ = false;
  forget_recovery();
  round_trip_ = {};
}

/// From here on all is sent again.
void Retransmission::forget_recovery() {
  resends_oldest_ = recovering_ = timing_ = false;
  steps_ = probes_ = 0;
  probe_deadline_ = kNever;
}

void Retransmission::sent(Instant now) {
  UROCE_ASSERT(window_.oldest() != window_.sent_end());
  rnr_until_ = kNever;
  start_ack_timer(now);
  if (!peer_keeps_) [[likely]]
    return;
  if (!timing_ && !recovering_ && !rewound_) {
    timing_ = true;
    timed_ = window_.sent_end();
    timed_at_ = now;
  }
  if (probe_deadline_ == kNever) start_probe_timer(now);
}

bool Retransmission::missing(Turn& turn, bool named) {
  if (rewound_ || resends_oldest_) return false;
  if (!named || !peer_keeps_ || !may_go_alone()) {
    named_ = named;
    retry(turn);
  } else if (count_retry(turn)) {
    go_alone();
  }
  return true;
}

bool Retransmission::may_go_alone() const {
  return window_.unanswered() > 1 && queue::is_message(window_.head().operation);
}

void Retransmission::go_alone() {
  if (!recovering_) recovery_end_ = window_.sent_end();
  recovering_ = resends_oldest_ = true;
  rewound_ = true;  // another NAK is an echo
  timing_ = false;
}

void Retransmission::resent_oldest(Instant now) {
  resends_oldest_ = false;
  alone_ = window_.oldest();
  start_ack_timer(now);
  start_probe_timer(now);
}

void Retransmission::skipped() { peer_keeps_ |= named_; }

/// There was progress.
void Retransmission::go_on(Instant now) {
  measure_round_trip(now);
  probes_ = 0;
  probe_deadline_ = kNever;
  resends_oldest_ = false;
  if (recovering_) {
    const Psn oldest = window_.oldest();
    recovering_ = oldest.before(recovery_end_);
    steps_ = oldest == alone_ + 1u ? steps_ + 1 : 0;
    if (recovering_ && steps_ == kStepsMax) {
      // So many are not lost one behind the other: the peer keeps nothing any more.
      peer_keeps_ = false;
      forget_recovery();
      shrink_window();
      window_.rewind();
      rewound_ = true;
      return;
    }
    if (recovering_ && may_go_alone()) go_alone();
  }
  if (window_.unanswered() > 0) start_probe_timer(now);
}

void Retransmission::measure_round_trip(Instant now) {
  if (!timing_ || window_.oldest().before(timed_)) return;
  timing_ = false;
  const Duration sample = std::max(now - timed_at_, Duration{1});
  round_trip_ = round_trip_ == Duration{} ? sample : Duration{(7 * round_trip_.ns + sample.ns) / 8};
}

/// Not before a round trip is known.
void Retransmission::start_probe_timer(Instant now) {
  probe_deadline_ = kNever;
  if (round_trip_ == Duration{} || !may_go_alone()) return;
  const Duration first = std::max(kProbeLeast, Duration{kRoundTripsPerProbe * round_trip_.ns});
  probe_deadline_ = now + Duration{first.ns << std::min(probes_, kProbeDoublingsMax)};
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
  forget_recovery();
  ack_deadline_ = kNever;
  rnr_until_ = turn.now + rnr_wait(timer_code);
}

/// Something that was sent is not answered: all from there on goes again.
void Retransmission::retry(Turn& turn) {
  if (!count_retry(turn)) return;
  forget_recovery();
  shrink_window();
  window_.rewind();
  rewound_ = true;
}

/// False: that was the last one, and the oldest request has failed.
bool Retransmission::count_retry(Turn& turn) {
  UROCE_ASSERT(window_.oldest() != window_.sent_end() && connection_.reliable);
  ack_deadline_ = kNever;
  if (++retries_ <= connection_.attributes.retry_count) return true;
  turn.counters.add(Counter::kRetryExceeded);
  fail_oldest_send(connection_, turn, CompletionStatus::kRetryExceeded);
  return false;
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
  if (turn.now < ack_deadline_) {
    if (turn.now < probe_deadline_) return;
    // Not counted: the peer has until the ACK timeout to answer.
    ++probes_;
    probe_deadline_ = kNever;
    timing_ = false;
    resends_oldest_ = may_go_alone();
    return;
  }
  turn.counters.add(Counter::kAckTimeout);
  ++silences_;
  retry(turn);
  // A NAK that answers the retransmission is news.
  rewound_ = false;
  probing_ = true;
}

}  // namespace uroce::qp
