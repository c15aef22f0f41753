#include "qp/retransmission.h"

#include <algorithm>
#include <utility>

#include "base/contract.h"
#include "base/probe.h"
#include "qp/completion_report.h"
#include "qp/transport_timers.h"

namespace uroce::qp {

using queue::CompletionStatus;

namespace {

/// Tells those that trace it: packets from the oldest unanswered one up to `end` go once more.
[[gnu::cold, gnu::noinline]] void note_resent(const Connection& connection, const SendWindow& window,
                                              Psn end) {
  UROCE_PROBE3(retransmit, connection.number.value, window.oldest().value(), end - window.oldest());
}

}  // namespace

void Retransmission::reset() {
  ack_deadline_ = rnr_until_ = kNever;
  retries_ = rnr_retries_ = silences_ = 0;
  rewound_ = alone_only_ = false;
  window_packets_ = SendWindow::kPackets;
  answered_since_step_ = 0;
  lossy_ = peer_keeps_ = reorders_ = false;
  alone_tells_ = true;
  trials_ = losses_ = vain_probes_ = 0;
  forget_recovery();
  round_trip_.reset();
  responses_.reset();
  sharing_until_ = Instant{INT64_MIN};
  shared_least_ = RoundTrip::kUnknown;
  shared_trips_ = 0;
}

/// Ends what was sent again alone, and its timing: everything unanswered is to be sent again.
void Retransmission::forget_recovery() {
  end_recovery();
  resends_oldest_ = false;
  probes_ = 0;
  round_trip_.cancel();
  probe_deadline_ = kNever;
}

void Retransmission::sent(Instant now) {
  UROCE_ASSERT(send_.window.oldest() != send_.window.sent_end());
  note_departure(now);
  start_ack_timer(now);
  // Of what goes for the first time, so that no answer is too early; a late one costs patience.
  if (const Psn end = send_.window.sent_end(); end != sent_end_) [[likely]] {
    if (round_trip_.begin(std::exchange(sent_end_, end), end, now)) [[unlikely]]
      shown_operation_ = send_.window.newest_operation();
  }
  if (probe_deadline_ == kNever) start_probe_timer(now);
}

bool Retransmission::missing(Turn& turn, bool named) {
  if (rewound_ || resends_oldest_ || (named && alone_only_)) return false;
  const bool alone = named && may_go_alone();
  if (!alone) {
    retry(turn);
  } else if (count_retry(turn)) {
    go_alone(send_.window.sent_end());
  }
  return true;
}

bool Retransmission::missing_responses(Turn& turn, Psn end) {
  UROCE_ASSERT(end.after(send_.window.oldest()));
  if (!send_.connection.transport.selective_repeat) [[unlikely]]
    return missing(turn, false);
  if (waits_for_missing() || send_.window.unanswered() == 0) return false;
  if (!count_retry(turn)) return true;
  responses_.asked(send_.window.oldest());
  go_alone(end);
  return true;
}

/// Whether the oldest packet, which a NAK names, is sent again without all that is behind it.
bool Retransmission::may_go_alone() {
  if (send_.window.unanswered() < 2 || !send_.connection.transport.selective_repeat) return false;
  if (trials_ == kTrialsMax && ++losses_ % kLossesPerTrial != 0) return false;
  // What was behind a READ that went alone is missing, too: a trial that has shown that.
  const bool nothing_kept = !alone_tells_ && !peer_keeps_ && send_.window.oldest() == alone_end_;
  if (nothing_kept) add_trial();
  return !nothing_kept;
}

void Retransmission::go_alone(Psn end) {
  wanted_end_ = end;
  recovering_ = resends_oldest_ = true;
  probed_ = false;
  rewound_ = true;  // another NAK is an echo
  round_trip_.cancel();
}

void Retransmission::resent_oldest(Instant now, Psn end, size_t overtaken) {
  UROCE_ASSERT(end.after(send_.window.oldest()));
  note_resent(send_.connection, send_.window, end);
  resends_oldest_ = false;
  alone_end_ = end;
  alone_at_ = now;
  alone_timed_ = recovering_ && probes_ == 0;
  alone_tells_ = queue::is_message(send_.window.head().operation);
  recovery_end_ =
      send_.window.next() - static_cast<uint32_t>(std::min<size_t>(overtaken, send_.window.unanswered()));
  // What has gone since the last time comes to as much as always at most, and what had gone before is there.
  constexpr uint32_t kMost = SendWindow::kPacketsMax - SendWindow::kPackets;
  if (recovering_ && peer_keeps_) {
    const uint32_t gone = std::min(SendWindow::kPackets, send_.connection.congestion.window());
    kept_packets_ = std::min(kept_packets_ + gone, kMost);
  }
  note_departure(now);
  // The peer's silence goes on while it is probed.
  if (probes_ == 0 || ack_deadline_ == kNever) start_ack_timer(now);
  start_probe_timer(now);
}

/// Counts a trial that has shown that the peer keeps nothing of what comes early.
void Retransmission::add_trial() { trials_ = static_cast<uint8_t>(std::min(trials_ + 1u, kTrialsMax)); }

void Retransmission::note_kept() {
  peer_keeps_ = true;
  trials_ = 0;
}

/// There was progress after the oldest packet was to go alone.
void Retransmission::go_on(Instant now) {
  const Psn oldest = send_.window.oldest();
  const bool gone = !std::exchange(resends_oldest_, false);
  if (probed_ && probes_ > 0 && !lossy_) note_probe(gone, now);
  // What is answered before the repetition can have been was not lost.
  reorders_ |= recovering_ && alone_tells_ && probes_ == 0 &&
               (!gone || now - alone_at_ < Duration{round_trip_.least().ns / 2});
  if (!gone) return end_recovery();
  if (std::exchange(alone_timed_, false) && !reorders_) round_trip_.take(now - alone_at_);
  if (oldest.before(alone_end_)) return;  // a READ is being answered
  const bool alone = oldest == alone_end_;
  if (recovering_ && alone_tells_ && !alone) note_kept();
  if (send_.window.unanswered() == 0 || !alone_tells_ || (probed_ && !alone)) return end_recovery();
  steps_ = alone ? static_cast<uint8_t>(steps_ + 1) : uint8_t{0};
  // So many are not lost one behind the other: the peer keeps nothing, or nothing any more.
  if (steps_ == (recovering_ && !peer_keeps_ ? 1 : kStepsMax)) {
    if (recovering_) add_trial();
    peer_keeps_ = peer_keeps_ && !recovering_;
    return start_over();
  }
  if (probed_) return;
  recovering_ = oldest.before(recovery_end_) && !reorders_;
  recovering_ ? go_alone(send_.window.sent_end()) : end_recovery();
}

/// After the answer to what was probed. The probe was in vain if the answer came before it can have been one
/// to the probe (`gone`: that has left), or so late that the peer was off.
void Retransmission::note_probe(bool gone, Instant now) {
  const Duration took = now - alone_at_;
  const bool vain =
      !gone || took < Duration{round_trip_.least().ns / 2} || took > round_trip_.tail_patience();
  const uint32_t probes = vain ? std::min(vain_probes_ + 1u, kVainDoublingsMax) : vain_probes_ / 2u;
  vain_probes_ = static_cast<uint8_t>(probes);
}

/// How long a probe waits before any round trip is known: a part of the ACK timeout, if there is one.
[[gnu::noinline]] Duration Retransmission::first_patience() const {
  const uint8_t code = send_.connection.attributes.timeout;
  if (code == kNoAckTimeout) return RoundTrip::kPatienceFirst;
  return std::max(Duration{ack_timeout(code).ns / kFirstPatiencePart}, RoundTrip::kPatienceFirst);
}

void Retransmission::end_recovery() {
  probed_ = recovering_ = false;
  steps_ = 0;
  kept_packets_ = 0;
}

/// Has the oldest packet sent again, as its answer is late. Not a retry: the peer has until the ACK timeout
/// to answer.
void Retransmission::probe() {
  probes_ = static_cast<uint8_t>(std::min(probes_ + 1u, kProbeDoublingsMax));
  responses_.forget();
  probe_deadline_ = kNever;
  round_trip_.cancel();
  if (send_.window.unanswered() == 0) return;
  resends_oldest_ = true;
  // Of a READ what was asked for again last, or all.
  if (!recovering_ || !send_.window.oldest().before(wanted_end_)) wanted_end_ = send_.window.sent_end();
  probed_ = !recovering_;
}

void Retransmission::receiver_not_ready(Turn& turn, uint8_t timer_code) {
  UROCE_ASSERT(send_.window.oldest() != send_.window.sent_end());
  if (holds_back(turn.now)) return;  // nothing went out since the last one: the network doubled it
  const uint8_t limit = send_.connection.attributes.rnr_retry;
  if (limit != kRnrRetryForEver && ++rnr_retries_ > limit) {
    fail_oldest_send(send_.connection, turn, CompletionStatus::kRnrRetryExceeded);
    return;
  }
  // The peer is there and answers: what it may have missed before does not count any more.
  retries_ = 0;
  rewound_ = false;
  alone_only_ = true;
  note_resent(send_.connection, send_.window, send_.window.sent_end());
  send_.window.rewind();
  forget_recovery();
  ack_deadline_ = kNever;
  rnr_until_ = turn.now + rnr_wait(timer_code);
}

/// Counts a retry and has everything unanswered sent again.
void Retransmission::retry(Turn& turn) {
  if (count_retry(turn)) start_over();
}

void Retransmission::start_over() {
  forget_recovery();
  shrink_window();
  note_resent(send_.connection, send_.window, send_.window.sent_end());
  send_.window.rewind();
  rewound_ = true;
}

/// Counts a retry. False: there was none left, and the oldest request has failed.
bool Retransmission::count_retry(Turn& turn) {
  UROCE_ASSERT(send_.window.oldest() != send_.window.sent_end() && send_.connection.reliable);
  ack_deadline_ = kNever;
  lossy_ = true;
  if (++retries_ <= send_.connection.attributes.retry_count) return true;
  turn.counters.add(Counter::kRetryExceeded);
  fail_oldest_send(send_.connection, turn, CompletionStatus::kRetryExceeded);
  return false;
}

void Retransmission::shrink_window() {
  window_packets_ = std::max(std::min(kWindowLeast, window_packets_), window_packets_ / 2);
  answered_since_step_ = 0;
  UROCE_ASSERT(window_packets_ <= SendWindow::kPackets);
}

/// Goes by the shortest of some round trips: single ones are long for other reasons.
[[gnu::noinline]] void Retransmission::share_path(Instant now) {
  sharing_until_ = now + kSharingFor;
  if (std::exchange(shared_samples_, round_trip_.samples()) == round_trip_.samples()) return;
  shared_least_ = std::min(shared_least_, round_trip_.newest());
  if (++shared_trips_ < kTripsPerShare) return;
  shared_trips_ = 0;
  const Duration seen = std::exchange(shared_least_, RoundTrip::kUnknown);
  const Duration least = round_trip_.least();
  const Duration most = least + Duration{least.ns / 8} + kQueuedAlways;
  const auto packets = static_cast<int64_t>(window_packets_);
  const int64_t fits = seen > most ? packets * most.ns / seen.ns : packets + packets / 8;
  int64_t fewest = kSharedLeast;
  // READs are asked for in parts: one is answered while the next one is asked for.
  if (send_.window.reads() > 0) {
    fewest = int64_t{2} * SendWindow::kReadPackets;
  } else if (packets >= kWindowLeast) {
    // What is under way may not have asked for its ACK, but for one packet of so many.
    fewest = kWindowLeast / 2;
  }
  window_packets_ = static_cast<uint32_t>(std::clamp<int64_t>(fits, fewest, SendWindow::kPackets));
}

void Retransmission::grow_window(uint32_t answered, Instant now) {
  if (now < sharing_until_) return;
  UROCE_ASSERT(window_packets_ >= kSharedLeast && answered_since_step_ < kAnsweredPerStep);
  const uint32_t since_step = answered_since_step_ + answered;
  window_packets_ = std::min(SendWindow::kPackets, window_packets_ + since_step / kAnsweredPerStep);
  answered_since_step_ = static_cast<uint8_t>(since_step % kAnsweredPerStep);
}

void Retransmission::expire(Turn& turn) {
  if (rnr_until_ != kNever) {
    if (turn.now >= rnr_until_) rnr_until_ = kNever;
    return;
  }
  if (turn.now < ack_deadline_) {
    if (turn.now >= probe_deadline_) probe();
    return;
  }
  turn.counters.add(Counter::kAckTimeout);
  ++send_.connection.incidents.timeouts;
  ++silences_;
  ++timeouts_seen_;
  retry(turn);
  // A response to the retransmission may be missing again.
  rewound_ = false;
  alone_only_ = true;
}

}  // namespace uroce::qp
