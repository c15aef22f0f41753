// Loss recovery of a requester: selective repeat, or go-back-N for a peer that buffers nothing.
//
// A gap is known from a sequence NAK, an implied NAK (the order of the peer's answers), responses that others
// have overtaken, a probe (tail_loss_probe.h) or an ACK timeout (ack_timer.h). The oldest packet is sent
// again alone at first. If its ACK covers more, the peer buffers (peer_buffering.h), and the next gap follows
// from the ACK, up to the recovery point (RFC 6675). Else recovery is go-back-N.
//
//   event               | next phase
//   sequence NAK        | kSelective, or kGoBackN where an attempt is not worth it; an echo changes nothing
//   responses overtaken | kSelective
//   implied NAK         | kGoBackN; kRnrWait stays
//   RNR NAK             | kRnrWait until its time has passed, then kGoBackN
//   probe timer         | kProbe; kSelective stays
//   ACK timeout         | kGoBackN
//   acknowledged        | kOpen; kSelective and kProbe stay while a READ is answered in part, kSelective also
//                       | for the next gap; both become kGoBackN when the peer buffers nothing
//
// Two facts cross the phases until there is progress. A gap that was handled makes further NAKs echoes, also
// while a probe is under way. The loss window of one packet stays while responses are asked for again.
//
// Decision: selective repeat (`recovery.selective`): the responder buffers out-of-order packets, and the
// requester retransmits only the gaps. A window that goes again for one packet fills the path, and may be
// lost again. Cost: one gap in a round trip, and buffers that a peer may fill for nothing. Figures:
// tests/sim/goodput.txt, and for go-back-N the rows `.gbn` of `perf/run --only loss`.
//
// Decision: missing READ responses are requested alone, up to the first that is buffered, and an ACK behind
// them counts when they have come. The rest of the READ need not be sent again. Cost: one gap at a time, so
// READs recover more slowly than WRITEs.
//
// Decision: after an ACK timeout or an RNR NAK only the oldest packet is sent until it is answered, and a
// sequence NAK that names it is an echo. The peer may not be able to take more, and Linux's rxe sends such a
// NAK behind each RNR NAK. Cost: a round trip before the others follow.
//
// Decision: the window halves at each go-back-N, to 32 at least, and grows by one packet for eight answered.
// A peer with short queues would drown in the repetitions. Cost: a long path is filled slowly after a loss.
//
// Decision: beside short messages of its poller, a queue pair adapts its window to the round trip
// (adapt_window_to_rtt()). More packets would only queue in front of the short ones. Cost: the window stays
// small if the path becomes longer meanwhile (`sim_test --gtest_filter='Fairness*'`).
#include "qp/recovery/loss_recovery.h"

#include <algorithm>
#include <utility>

#include "base/process/probe.h"
#include "base/values/contract.h"
#include "qp/connection/completion_report.h"
#include "qp/recovery/transport_timers.h"

namespace uroce::qp {

using queue::CompletionStatus;

namespace {

/// Tells those that trace it: packets from the oldest unanswered one up to `end` go once more.
[[gnu::cold, gnu::noinline]] void note_resent(const Connection& connection, const SendWindow& window,
                                              Psn end) {
  UROCE_PROBE3(retransmit, connection.number.value, window.oldest().value(), end - window.oldest());
}

}  // namespace

void LossRecovery::reset() {
  enter(Phase::kOpen);
  ack_.reset();
  probe_.reset();
  rtt_.reset();
  responses_.reset();
  buffering_.reset();
  gap_handled_ = loss_window_ = path_reorders_ = false;
  rnr_retries_ = 0;
  resent_.cumulative = true;
  window_packets_ = SendWindow::kPackets;
  answered_since_step_ = 0;
  sharing_until_ = Instant{INT64_MIN};
  shared_least_ = RttEstimator::kUnknown;
  shared_trips_ = 0;
}

void LossRecovery::sent(Instant now) {
  UROCE_ASSERT(send_.window.oldest() != send_.window.sent_end());
  if (phase_ == Phase::kRnrWait) [[unlikely]]
    phase_ = Phase::kGoBackN;
  probe_.sent(now);
  ack_.start(ack_code(), now);
  // Of what goes for the first time, so that no answer is too early; a late one costs patience.
  if (const Psn end = send_.window.sent_end(); end != sent_end_) [[likely]] {
    if (rtt_.begin(std::exchange(sent_end_, end), end, now)) [[unlikely]]
      shown_operation_ = send_.window.newest_operation();
  }
  if (!probe_.runs()) start_probe_timer(now);
}

void LossRecovery::sequence_nak(Turn& turn) {
  if (gap_handled_ || oldest_due_ || loss_window_) return;
  if (!may_go_alone()) return go_back(turn);
  if (may_retry(turn)) go_alone(send_.window.sent_end());
}

bool LossRecovery::implied_nak(Turn& turn) {
  if (gap_handled_ || oldest_due_) return false;
  go_back(turn);
  return true;
}

bool LossRecovery::responses_missing(Turn& turn, Psn end) {
  UROCE_ASSERT(end.after(send_.window.oldest()));
  if (!send_.connection.transport.selective_repeat) [[unlikely]]
    return implied_nak(turn);
  if (awaits_gap() || send_.window.unanswered() == 0) return false;
  if (!may_retry(turn)) return true;
  responses_.asked(send_.window.oldest());
  go_alone(end);
  return true;
}

/// Whether the oldest packet, which a NAK names, is sent again without all that is behind it.
bool LossRecovery::may_go_alone() {
  if (send_.window.unanswered() < 2 || !send_.connection.transport.selective_repeat) return false;
  if (!buffering_.may_attempt()) return false;
  // What was behind a READ that went alone is missing, too: an attempt that has failed.
  const bool failed = !resent_.cumulative && !buffering_.seen() && send_.window.oldest() == resent_.end;
  if (failed) buffering_.refute();
  return !failed;
}

void LossRecovery::go_alone(Psn end) {
  UROCE_ASSERT(phase_ != Phase::kRnrWait);
  // Packets that were probed for one by one say nothing of this gap.
  if (phase_ != Phase::kSelective) gaps_ = 0;
  phase_ = Phase::kSelective;
  due_end_ = end;
  oldest_due_ = true;
  gap_handled_ = true;
  rtt_.cancel();
}

/// Counts a retry and has everything unanswered sent again.
void LossRecovery::go_back(Turn& turn) {
  if (may_retry(turn)) start_over();
}

void LossRecovery::start_over() {
  shrink_window();
  // A peer that has asked for time gets it.
  rewind(phase_ == Phase::kRnrWait ? Phase::kRnrWait : Phase::kGoBackN);
  gap_handled_ = true;
}

/// Everything unanswered is to be sent again, in a phase that does so.
void LossRecovery::rewind(Phase phase) {
  note_resent(send_.connection, send_.window, send_.window.sent_end());
  send_.window.rewind();
  enter(phase);
}

/// Counts a retry. False: there was none left, and the oldest request has failed.
bool LossRecovery::may_retry(Turn& turn) {
  UROCE_ASSERT(send_.window.oldest() != send_.window.sent_end() && send_.connection.reliable);
  probe_.note_loss();
  if (ack_.may_retry(send_.connection.attributes.retry_count)) return true;
  turn.counters.add(Counter::kRetryExceeded);
  fail_oldest_send(send_.connection, turn, CompletionStatus::kRetryExceeded);
  return false;
}

/// Begins a phase without single retransmissions and without RTT samples.
void LossRecovery::enter(Phase phase) {
  UROCE_ASSERT(phase != Phase::kProbe && phase != Phase::kSelective);
  end_alone();
  phase_ = phase;
  oldest_due_ = false;
  probe_.cancel();
  rtt_.cancel();
}

void LossRecovery::end_alone() {
  phase_ = Phase::kOpen;
  gaps_ = 0;
  buffered_packets_ = 0;
}

void LossRecovery::oldest_sent(Instant now, Psn end, size_t overtaken) {
  UROCE_ASSERT(end.after(send_.window.oldest()) && oldest_due_);
  const bool selective = phase_ == Phase::kSelective;
  const bool probe = probe_.probes() > 0;
  note_resent(send_.connection, send_.window, end);
  oldest_due_ = false;
  const auto behind = static_cast<uint32_t>(std::min<size_t>(overtaken, send_.window.unanswered()));
  resent_ = {.end = end,
             .recovery_point = send_.window.next() - behind,
             .at = now,
             .cumulative = queue::is_message(send_.window.head().operation),
             .timed = selective && !probe};
  // What has gone since the last time comes to as much as always at most, and what had gone before is there.
  constexpr uint32_t kMost = SendWindow::kPacketsMax - SendWindow::kPackets;
  if (selective && buffering_.seen()) {
    const uint32_t gone = std::min(SendWindow::kPackets, send_.connection.congestion.window());
    buffered_packets_ = std::min(buffered_packets_ + gone, kMost);
  }
  probe_.sent(now);
  // The peer's silence goes on while it is probed.
  if (!probe || !ack_.runs()) ack_.start(ack_code(), now);
  start_probe_timer(now);
}

/// There was progress in another phase than kOpen.
void LossRecovery::advance(Instant now) {
  gap_handled_ = loss_window_ = false;
  rnr_retries_ = 0;
  if (phase_ == Phase::kProbe || phase_ == Phase::kSelective) return advance_alone(now);
  UROCE_ASSERT(!oldest_due_ && gaps_ == 0 && buffered_packets_ == 0);
  phase_ = Phase::kOpen;
}

/// There was progress after the oldest packet was to go alone.
void LossRecovery::advance_alone(Instant now) {
  const Psn oldest = send_.window.oldest();
  const bool selective = phase_ == Phase::kSelective;
  const bool left = !std::exchange(oldest_due_, false);
  const Duration took = now - resent_.at;
  if (!selective) probe_.judge(rtt_, left, took);
  // What is answered before the repetition can have been was not lost.
  path_reorders_ |= selective && resent_.cumulative && probe_.probes() == 0 &&
                    (!left || took < Duration{rtt_.least().ns / 2});
  if (!left) return end_alone();
  if (std::exchange(resent_.timed, false) && !path_reorders_) rtt_.take(took);
  if (oldest.before(resent_.end)) return;  // a READ is being answered
  const bool alone = oldest == resent_.end;
  if (selective && resent_.cumulative && !alone) buffering_.confirm();
  if (send_.window.unanswered() == 0 || !resent_.cumulative || (!selective && !alone)) return end_alone();
  gaps_ = alone ? static_cast<uint8_t>(gaps_ + 1) : uint8_t{0};
  // So many are not lost one behind the other: the peer buffers nothing, or nothing any more.
  if (gaps_ >= (selective ? buffering_.gaps_max() : PeerBuffering::kGapsMax)) {
    if (selective) buffering_.refute();
    return start_over();
  }
  if (!selective) return;
  if (!oldest.before(resent_.recovery_point) || path_reorders_) return end_alone();
  go_alone(send_.window.sent_end());
}

/// Has the oldest packet sent again, as its answer is late. Not a retry: the peer has until the ACK timeout
/// to answer.
void LossRecovery::probe() {
  probe_.expired();
  responses_.forget();
  rtt_.cancel();
  if (send_.window.unanswered() == 0) return;
  oldest_due_ = true;
  // Of a READ what was asked for again last, or all.
  const bool selective = phase_ == Phase::kSelective;
  if (!selective || !send_.window.oldest().before(due_end_)) due_end_ = send_.window.sent_end();
  if (!selective) phase_ = Phase::kProbe;
}

void LossRecovery::rnr_nak(Turn& turn, uint8_t timer_code) {
  UROCE_ASSERT(send_.window.oldest() != send_.window.sent_end());
  if (next(turn.now) == Next::kNothing)
    return;  // nothing went out since the last one: the network doubled it
  const uint8_t limit = send_.connection.attributes.rnr_retry;
  if (limit != kRnrRetryForEver && ++rnr_retries_ > limit) {
    fail_oldest_send(send_.connection, turn, CompletionStatus::kRnrRetryExceeded);
    return;
  }
  // The peer is there and answers: what it may have missed before does not count any more.
  ack_.forgive();
  ack_.stop();
  gap_handled_ = false;
  loss_window_ = true;
  rewind(Phase::kRnrWait);
  rnr_until_ = turn.now + rnr_wait(timer_code);
}
void LossRecovery::shrink_window() {
  window_packets_ = std::max(std::min(kWindowLeast, window_packets_), window_packets_ / 2);
  answered_since_step_ = 0;
  UROCE_ASSERT(window_packets_ <= SendWindow::kPackets);
}

/// Goes by the shortest of some round trips: single ones are long for other reasons.
[[gnu::noinline]] void LossRecovery::adapt_window_to_rtt(Instant now) {
  sharing_until_ = now + kSharingFor;
  if (std::exchange(shared_samples_, rtt_.samples()) == rtt_.samples()) return;
  shared_least_ = std::min(shared_least_, rtt_.newest());
  if (++shared_trips_ < kTripsPerShare) return;
  shared_trips_ = 0;
  const Duration seen = std::exchange(shared_least_, RttEstimator::kUnknown);
  const Duration least = rtt_.least();
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

void LossRecovery::grow_window(uint32_t answered, Instant now) {
  if (now < sharing_until_) return;
  UROCE_ASSERT(window_packets_ >= kSharedLeast && answered_since_step_ < kAnsweredPerStep);
  const uint32_t since_step = answered_since_step_ + answered;
  window_packets_ = std::min(SendWindow::kPackets, window_packets_ + since_step / kAnsweredPerStep);
  answered_since_step_ = static_cast<uint8_t>(since_step % kAnsweredPerStep);
}

void LossRecovery::expire(Turn& turn) {
  if (phase_ == Phase::kRnrWait) {
    if (turn.now >= rnr_until_) phase_ = Phase::kGoBackN;
    return;
  }
  if (turn.now < ack_.deadline()) {
    if (turn.now >= probe_.deadline()) probe();
    return;
  }
  turn.counters.add(Counter::kAckTimeout);
  ++send_.connection.incidents.timeouts;
  ack_.expired();
  ++timeouts_seen_;
  go_back(turn);
  // A response to the retransmission may be missing again.
  gap_handled_ = false;
  loss_window_ = true;
}

}  // namespace uroce::qp
