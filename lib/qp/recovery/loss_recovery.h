#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/values/contract.h"
#include "base/values/time.h"
#include "qp/congestion/controller.h"
#include "qp/connection/sending.h"
#include "qp/connection/turn.h"
#include "qp/recovery/ack_timer.h"
#include "qp/recovery/peer_buffering.h"
#include "qp/recovery/reordering.h"
#include "qp/recovery/rtt_estimator.h"
#include "qp/recovery/tail_loss_probe.h"

namespace uroce::qp {

/// Loss recovery of a requester: what is sent again, when, and when it gives up (the algorithm and its
/// decisions: loss_recovery.cc). Events go in; next(), window() and deadline() are the answer. Each event
/// acts on the SendWindow at once: "all from the oldest on" is a rewind of it.
class LossRecovery {
 public:
  /// What recovery is doing about a gap.
  enum class Phase : uint8_t {
    kOpen,       // nothing is sent again
    kProbe,      // the oldest packet goes, or went, again because its answer is late
    kSelective,  // the oldest packet goes, or went, again alone because it is missing
    kGoBackN,    // all from the oldest on goes, or went, again
    kRnrWait,    // the peer has no receive: nothing goes before its time
  };
  /// What the requester sends now.
  enum class Next : uint8_t {
    kOnward,   // from SendWindow::next() on, while window() allows: new packets, or all again behind a rewind
    kOldest,   // the oldest packet alone, before all others; of a READ up to due_end()
    kNothing,  // before deadline()
  };

  /// Two runs of kPacketsPerAck: one is answered while the other goes. In a smaller window, which
  /// adapt_window_to_rtt() may make, each packet has to ask for its ACK.
  static constexpr uint32_t kWindowLeast = 32;
  static constexpr uint32_t kSharedLeast = 8;

  explicit LossRecovery(Sending& send) : send_(send) {}

  void reset();

  // Events of the peer.
  /// `psns` were answered, which is also peer_alive(): all retry counters start over. True: with them a round
  /// trip was measured that is to be shown.
  [[nodiscard]] bool acknowledged(uint32_t psns, Instant now);
  /// Any answer, be it to what was answered before: a peer that is slow, or busy with what it got twice, is
  /// not a silent one. Each of our packets has an answer or none, so this does not go on by itself.
  void peer_alive(Instant now) { ack_.peer_alive(ack_code(), now); }
  /// A sequence NAK names the oldest unanswered packet: it is missing at the peer. Acts once until there is
  /// progress or a timeout, for more of the same are echoes of one loss. After an RNR NAK or a timeout it is
  /// always an echo: it answers packets behind the oldest one, and none of them has been sent since.
  void sequence_nak(Turn& turn);
  /// The order of the peer's answers says that the oldest one is missing. Acts once until there is progress
  /// or a timeout; true when it did.
  bool implied_nak(Turn& turn);
  /// Responses came before those that are due, up to `end`, where the first is kept: these are missing, as
  /// far as they have not been asked for again. Acts once until there is progress; true when it did.
  bool responses_missing(Turn& turn, Psn end);
  /// A response that was answered before came again.
  void response_repeated(Psn psn) { responses_.came_again(psn); }
  /// RNR NAK for the oldest unanswered packet.
  void rnr_nak(Turn& turn, uint8_t timer_code);

  // Events of the requester and of time.
  /// Packets went out, new ones or all from the oldest unanswered one on: the ACK timer starts anew. Not for
  /// the oldest packet alone, which oldest_sent() is for.
  void sent(Instant now);
  /// The oldest packet, or all of a READ that is missing, up to `end` went alone, before `overtaken` frames
  /// that were built earlier. The ACK timer starts anew, but for a probe: a probe is no news of the peer.
  void oldest_sent(Instant now, Psn end, size_t overtaken);
  /// The deadline has passed.
  void expire(Turn& turn);
  [[nodiscard]] Instant deadline() const {
    return phase_ == Phase::kRnrWait ? rnr_until_ : std::min(ack_.deadline(), probe_.deadline());
  }

  // Answers.
  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] Next next(Instant now) const {
    if (phase_ == Phase::kRnrWait && now < rnr_until_) return Next::kNothing;
    return oldest_due_ ? Next::kOldest : Next::kOnward;
  }
  /// The oldest packet is to be sent again alone.
  [[nodiscard]] bool oldest_due() const { return oldest_due_; }
  /// The PSN behind what of the oldest request is to be sent again, if that is a READ.
  [[nodiscard]] Psn due_end() const { return due_end_; }
  /// Packets that may be unanswered now.
  [[nodiscard]] uint32_t window() const { return loss_window_ ? 1 : window_packets_ + buffered_packets_; }
  /// Packets that may be unanswered when congestion control allows `most`: what the peer buffers is not in
  /// the network any more.
  [[nodiscard]] uint32_t window_within(uint32_t most) const {
    return loss_window_ ? 1 : std::min(window_packets_, most) + buffered_packets_;
  }
  /// What is missing has been sent, or asked for, again: there is nothing to be done until progress.
  [[nodiscard]] bool awaits_gap() const {
    return gap_handled_ || oldest_due_ ||
           (phase_ == Phase::kSelective && send_.window.oldest().before(resent_.end));
  }
  /// The oldest response, which has not come, is lost and not merely late, as that of `psn` has come.
  [[nodiscard]] bool is_lost(Psn psn) const { return responses_.is_lost(send_.window.oldest(), psn); }

  // Round trips, and what congestion control wants to know.
  [[nodiscard]] const RttEstimator& rtt() const { return rtt_; }
  /// The operation whose round trip is to be shown when acknowledged() has said so. It is noted when the
  /// packet goes, because the program may reuse the request before the answer comes.
  [[nodiscard]] queue::SendOperation shown_operation() const { return shown_operation_; }
  [[nodiscard]] PathStatistics path_seen() const {
    return {.samples = rtt_.samples(), .round_trip = rtt_.newest(), .timeouts = timeouts_seen_};
  }
  /// After packets left under congestion control, which wants to know what they found on the path: what goes
  /// while others are missing is not timed, for its answer waits for them. Of responses only the first few
  /// are: a window of them is asked for at once, and the last one waits for all others.
  void time_undisturbed() {
    if (phase_ == Phase::kSelective || oldest_due_) return rtt_.cancel();
    if (send_.window.reads() > 0) rtt_.shorten(kResponsesTimed);
  }
  /// To be called after each pump with kSharedLeast packets under way while others send short messages: makes
  /// the window as large as the path takes. Packets beyond that wait in a queue, with theirs behind them.
  void adapt_window_to_rtt(Instant now);

  /// Moments are on a clock that shows `by` more from now on.
  void shift(Duration by) {
    uroce::shift(by, rnr_until_, resent_.at, sharing_until_);
    ack_.shift(by);
    probe_.shift(by);
    rtt_.shift(by);
  }

 private:
  static constexpr uint32_t kAnsweredPerStep = 8;
  static constexpr uint32_t kResponsesTimed = 16;
  // Of adapt_window_to_rtt(): round trips that the window is set by, ...
  static constexpr uint32_t kTripsPerShare = 4;
  // ... what of them is always spent in queues, beside an eighth of the shortest one, and how long it holds.
  static constexpr Duration kQueuedAlways = microseconds(1);
  static constexpr Duration kSharingFor = milliseconds(1);
  void shrink_window();
  void grow_window(uint32_t answered, Instant now);

  /// The last packet, or rest of a READ, that was sent again alone.
  struct Resent {
    Psn end;
    Psn recovery_point;  // what lies before it, and is not acknowledged with the packet, is missing
    Instant at{};
    bool cumulative = true;  // its ACK covers what is behind it, too, as that of a READ does not
    bool timed = false;      // its answer is one to nothing else, and so a round trip
  };

  [[nodiscard]] uint8_t ack_code() const { return send_.connection.attributes.timeout; }
  [[nodiscard]] bool may_go_alone();
  void go_alone(Psn end);
  void go_back(Turn& turn);
  void start_over();
  void rewind(Phase phase);
  [[nodiscard]] bool may_retry(Turn& turn);
  void enter(Phase phase);
  void end_alone();
  void advance(Instant now);
  void advance_alone(Instant now);
  void probe();
  void start_probe_timer(Instant now) { probe_.start(rtt_, send_.connection.tail_probes, ack_code(), now); }

  Sending& send_;
  // Small members stand in the padding of the part before them.
  [[no_unique_address]] AckTimer ack_;
  Phase phase_ = Phase::kOpen;
  // Facts that may hold in each phase but kOpen, until there is progress.
  bool gap_handled_ = false;  // since the last timeout or RNR NAK: another NAK is an echo
  bool loss_window_ = false;  // after a timeout or RNR NAK: only the oldest packet is under way
  bool oldest_due_ = false;   // in kProbe and kSelective
  uint8_t rnr_retries_ = 0;
  uint8_t gaps_ = 0;  // in a row, each of no more than the packet that went alone
  [[no_unique_address]] TailLossProbe probe_;
  [[no_unique_address]] PeerBuffering buffering_;
  bool path_reorders_ = false;  // a packet of ours was late, not lost
  uint8_t answered_since_step_ = 0;
  uint32_t window_packets_ = SendWindow::kPackets;
  uint32_t buffered_packets_ = 0;  // that the peer may buffer
  Psn sent_end_;                   // up to which packets have gone
  Psn due_end_;
  Instant rnr_until_{};  // in kRnrWait
  [[no_unique_address]] Resent resent_;
  queue::SendOperation shown_operation_ = queue::SendOperation::kSend;
  uint16_t timeouts_seen_ = 0;  // modulo 2^16
  RttEstimator rtt_;
  Reordering responses_;  // on the path of the peer's
  // Of adapt_window_to_rtt():
  Instant sharing_until_{INT64_MIN};                // nothing else makes the window larger
  Duration shared_least_ = RttEstimator::kUnknown;  // round trip since it set the window, ...
  uint32_t shared_samples_ = 0;                     // ... of those that it has seen, modulo 2^32, ...
  uint8_t shared_trips_ = 0;                        // ... so many
};

/// What requester and completer share.
struct SendSide : Sending {
  explicit SendSide(const QueuePairOptions& options) : Sending(options) {}

  LossRecovery recovery{*this};
};

// In line, for it is called for every answer.

inline bool LossRecovery::acknowledged(uint32_t psns, Instant now) {
  UROCE_ASSERT(psns > 0);
  if (window_packets_ != SendWindow::kPackets) [[unlikely]]
    grow_window(psns, now);
  const bool shown = rtt_.answered(send_.window.oldest(), now);
  ack_.acknowledged();
  probe_.stop();
  if (phase_ != Phase::kOpen) [[unlikely]]
    advance(now);
  probe_.acknowledged();
  if (send_.window.unanswered() == 0) return shown;
  ack_.start(ack_code(), now);
  start_probe_timer(now);
  return shown;
}

}  // namespace uroce::qp
