#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/contract.h"
#include "base/time.h"
#include "qp/reordering.h"
#include "qp/round_trip.h"
#include "qp/sending.h"
#include "qp/transport_timers.h"
#include "qp/turn.h"

namespace uroce::qp {

/// When the requester sends again, and when it gives up: the ACK timeout, sequence NAKs, and RNR NAKs.
/// A packet that is missing goes again alone at first. When the answer to it acknowledges more, the peer
/// keeps what comes early: the next one that is missing follows from the ACK, and the window is larger
/// meanwhile, for much of it is at the peer already. Else recovery is go-back-N, the window rewinds to the
/// oldest unanswered PSN, from now on at once if that was seen some times.
///
/// The oldest packet goes again by itself, as a probe, when an answer is later than round trips so far let
/// expect; only the ACK timeout counts as a retry. Where something was lost once each probe waits twice as
/// long as the one before. Elsewhere a late peer may be a slow one: it gets one probe until it answers (with
/// TransportOptions::tail_probes), and each that was sent in vain doubles what the next one waits. As long as
/// no round trip is known a probe waits for a part of the ACK timeout.
class Retransmission {
 public:
  /// Two runs of kPacketsPerAck: one is answered while the other goes. In a smaller window, which
  /// share_path() may make, each packet has to ask for its ACK.
  static constexpr uint32_t kWindowLeast = 32;
  static constexpr uint32_t kSharedLeast = 8;

  explicit Retransmission(Sending& send) : send_(send) {}

  void reset();

  /// `psns` were answered, which is also heard(): all retry counters start over. True: with them a round trip
  /// was measured that is to be shown.
  [[nodiscard]] bool progress(uint32_t psns, Instant now);
  /// Any answer, be it to what was answered before: a peer that is slow, or busy with what it got twice, is
  /// not a silent one. Each of our packets has an answer or none, so this does not go on by itself.
  void heard(Instant now);
  /// Packets went out, new ones or all from the oldest unanswered one on: the ACK timer starts anew. Not for
  /// the oldest packet alone, which resent_oldest() is for.
  void sent(Instant now);

  /// The peer says that the oldest unanswered packet is missing: by a sequence NAK that names it (`named`),
  /// or by the order of its answers. Acts once until there is progress or a timeout, for more of the same are
  /// echoes of one loss; true when it did. After an RNR NAK or a timeout a sequence NAK is always an echo: it
  /// answers packets behind the oldest one, and none of them has been sent since. Linux's rxe sends one for
  /// what follows the packet that it has answered by an RNR NAK.
  bool missing(Turn& turn, bool named);
  /// Responses came before those that are due, up to `end`, where the first is kept: these are missing, as
  /// far as they have not been asked for again. Acts once until there is progress.
  bool missing_responses(Turn& turn, Psn end);
  /// Whether what is missing has been sent, or asked for, again: there is nothing to be done until progress.
  [[nodiscard]] bool waits_for_missing() const {
    return rewound_ || resends_oldest_ || (recovering_ && send_.window.oldest().before(alone_end_));
  }
  /// Whether the oldest response, which has not come, is lost and not merely late, as that of `psn` has come.
  [[nodiscard]] bool is_lost(Psn psn) const { return responses_.is_lost(send_.window.oldest(), psn); }
  /// A response that was answered before came again.
  void response_came_again(Psn psn) { responses_.came_again(psn); }

  /// The oldest packet is to be sent again, alone; if that is a READ, up to wanted_end() at most.
  [[nodiscard]] bool resends_oldest() const { return resends_oldest_; }
  [[nodiscard]] Psn wanted_end() const { return wanted_end_; }
  /// The oldest packet, or all of a READ that is missing, up to `end` went alone, before `overtaken` frames
  /// that were built earlier. The ACK timer starts anew, but for a probe: a probe is no news of the peer.
  void resent_oldest(Instant now, Psn end, size_t overtaken);
  /// RNR NAK for the oldest unanswered packet.
  void receiver_not_ready(Turn& turn, uint8_t timer_code);

  /// No packet may go out before the peer's RNR time has passed.
  [[nodiscard]] bool holds_back(Instant now) const { return rnr_until_ != kNever && now < rnr_until_; }

  /// Packets that may be unanswered now. After a timeout or an RNR NAK only the oldest packet goes out, until
  /// it is answered: the peer may not be able to take more.
  [[nodiscard]] uint32_t window() const { return alone_only_ ? 1 : window_packets_ + kept_packets_; }

  /// Packets that may be unanswered when congestion control allows `most`: what the peer keeps is not in the
  /// network any more.
  [[nodiscard]] uint32_t window_within(uint32_t most) const {
    return alone_only_ ? 1 : std::min(window_packets_, most) + kept_packets_;
  }
  /// After packets left under congestion control, which wants to know what they found on the path: what goes
  /// while others are missing is not timed, for its answer waits for them. Of responses only the first few
  /// are: a window of them is asked for at once, and the last one waits for all others.
  void time_undisturbed() {
    if (recovering_ || resends_oldest_) return round_trip_.cancel();
    if (send_.window.reads() > 0) round_trip_.shorten(kResponsesTimed);
  }
  /// To be called after each pump with kSharedLeast packets under way while others send short messages: makes
  /// the window as large as the path takes. Packets beyond that wait in a queue, with theirs behind them.
  void share_path(Instant now);
  [[nodiscard]] const RoundTrip& round_trip() const { return round_trip_; }
  /// The operation whose round trip is to be shown when progress() has said so.
  [[nodiscard]] queue::SendOperation shown_operation() const { return shown_operation_; }
  [[nodiscard]] PathStatistics path_seen() const {
    return {.samples = round_trip_.samples(), .round_trip = round_trip_.newest(), .timeouts = timeouts_seen_};
  }

  [[nodiscard]] Instant deadline() const {
    return rnr_until_ != kNever ? rnr_until_ : std::min(ack_deadline_, probe_deadline_);
  }
  void expire(Turn& turn);

  /// Moments are on a clock that shows `by` more from now on.
  void shift(Duration by) {
    uroce::shift(by, ack_deadline_, rnr_until_, alone_at_, sharing_until_, sent_at_, probe_deadline_);
    round_trip_.shift(by);
  }

 private:
  // What was sent in vain is sent again in whole, so a peer that loses for want of room is given less at a
  // time: half after each loss, and one packet more for every few that were answered.
  static constexpr uint32_t kAnsweredPerStep = 8;
  static constexpr uint32_t kResponsesTimed = 16;
  // Of share_path(): round trips that the window is set by, ...
  static constexpr uint32_t kTripsPerShare = 4;
  // ... what of them is always spent in queues, beside an eighth of the shortest one, and how long it holds.
  static constexpr Duration kQueuedAlways = microseconds(1);
  static constexpr Duration kSharingFor = milliseconds(1);
  void shrink_window();
  void grow_window(uint32_t answered, Instant now);

  void retry(Turn& turn);
  void start_over();
  void forget_recovery();
  bool count_retry(Turn& turn);
  [[nodiscard]] bool may_go_alone();
  void go_alone(Psn end);
  void go_on(Instant now);
  void note_kept();
  void add_trial();
  void end_recovery();
  void probe();
  void note_probe(bool gone, Instant now);
  [[nodiscard]] Instant tail_deadline(Instant now) const;
  [[nodiscard, gnu::cold]] Duration first_patience() const;
  void start_probe_timer(Instant now);
  static constexpr uint32_t kStepsMax = 3;  // of a peer that keeps what comes early
  static constexpr uint32_t kTrialsMax = 3;
  static constexpr uint32_t kLossesPerTrial = 16;  // later
  static constexpr uint32_t kProbeDoublingsMax = 16;
  static constexpr uint32_t kVainDoublingsMax = 10;  // 100 us become more than an ACK timeout of 67 ms
  /// ACK timeouts are times that a peer surely answers in, and round trips small parts of them.
  static constexpr int64_t kFirstPatiencePart = 16;
  // The ACK timer may react between T and 4T. A lost packet is sent again after T; each timeout in a row
  // doubles the time, so that a peer that is merely not run gets as much of it as can be before it is given
  // up: 27T instead of 8T with seven retries.
  static constexpr uint32_t kDoublingsMax = 2;
  void start_ack_timer(Instant now);
  /// What went out ends an RNR wait.
  void note_departure(Instant now) {
    rnr_until_ = kNever;
    sent_at_ = now;
  }

  Sending& send_;
  Instant ack_deadline_ = kNever;
  Instant probe_deadline_ = kNever;
  Instant rnr_until_ = kNever;
  Instant sent_at_{};  // when packets went out last, ...
  Psn sent_end_;       // ... up to this one
  uint32_t window_packets_ = SendWindow::kPackets;
  uint32_t kept_packets_ = 0;  // that the peer may keep
  // Nothing here comes to more than 255. What every progress sets back comes first.
  uint8_t retries_ = 0;
  uint8_t rnr_retries_ = 0;
  uint8_t silences_ = 0;  // timeouts since the peer was heard
  uint8_t probes_ = 0;    // since the last progress
  bool rewound_ = false;  // since the last progress or timeout
  bool alone_only_ = false;
  bool lossy_ = false;       // something was lost
  bool peer_keeps_ = false;  // what comes early; has been seen
  // The oldest packet goes, or went, alone: as a probe, or because it was missing.
  bool resends_oldest_ = false;
  bool probed_ = false;
  bool recovering_ = false;   // what lies before recovery_end_, and was not acknowledged with it, is missing
  bool alone_tells_ = true;   // the answer to the last acknowledges what is behind it, too, ...
  bool alone_timed_ = false;  // ... and is one to nothing else
  bool reorders_ = false;     // the path of our packets has: one was late, not lost
  uint8_t trials_ = 0;        // in a row that have shown that the peer keeps nothing
  uint8_t losses_ = 0;        // since there were too many of them, modulo 256
  uint8_t steps_ = 0;         // packets in a row of which only the one that went alone was acknowledged
  uint8_t vain_probes_ = 0;   // in a row, of peers that were merely late
  uint8_t answered_since_step_ = 0;
  queue::SendOperation shown_operation_ = queue::SendOperation::kSend;
  uint16_t timeouts_seen_ = 0;  // modulo 2^16
  Psn recovery_end_;            // while recovering_
  Psn wanted_end_;              // behind what is to go
  Psn alone_end_;               // behind the last that went alone ...
  Instant alone_at_{};          // ... which was then
  RoundTrip round_trip_;
  Reordering responses_;  // on the path of the peer's
  // Of share_path():
  Instant sharing_until_{INT64_MIN};             // nothing else makes the window larger
  Duration shared_least_ = RoundTrip::kUnknown;  // round trip since it set the window, ...
  uint32_t shared_samples_ = 0;                  // ... of those that it has seen, modulo 2^32, ...
  uint8_t shared_trips_ = 0;                     // ... so many
};

/// What requester and completer share.
struct SendSide : Sending {
  explicit SendSide(const QueuePairOptions& options) : Sending(options) {}

  Retransmission retransmission{*this};
};

// In line, for they are called for every answer.

inline void Retransmission::start_ack_timer(Instant now) {
  const uint8_t code = send_.connection.attributes.timeout;
  ack_deadline_ = kNever;
  if (code == kNoAckTimeout) return;
  ack_deadline_ =
      now + ack_timeout(static_cast<uint8_t>(code + std::min<uint32_t>(silences_, kDoublingsMax)));
}

inline void Retransmission::heard(Instant now) {
  silences_ = 0;
  if (ack_deadline_ != kNever) start_ack_timer(now);
}

inline void Retransmission::start_probe_timer(Instant now) {
  const Duration patience = round_trip_.patience();
  probe_deadline_ = kNever;
  if (!lossy_) [[likely]] {
    if (send_.connection.tail_probes && probes_ == 0) probe_deadline_ = tail_deadline(now);
  } else if (patience != RoundTrip::kUnknown) {
    probe_deadline_ = now + Duration{patience.ns << probes_};
  }
}

/// The tail went with what went last. While answers come they may come slowly, one after the other.
inline Instant Retransmission::tail_deadline(Instant now) const {
  Duration patience = round_trip_.tail_patience();
  if (patience == RoundTrip::kUnknown) [[unlikely]]
    patience = first_patience();
  patience = Duration{patience.ns << vain_probes_};
  return std::max(sent_at_ + patience, now + Duration{patience.ns / 2});
}

inline bool Retransmission::progress(uint32_t psns, Instant now) {
  UROCE_ASSERT(psns > 0);
  if (window_packets_ != SendWindow::kPackets) [[unlikely]]
    grow_window(psns, now);
  const bool shown = round_trip_.answered(send_.window.oldest(), now);
  retries_ = rnr_retries_ = silences_ = 0;
  rewound_ = alone_only_ = false;
  ack_deadline_ = probe_deadline_ = rnr_until_ = kNever;
  if (recovering_ || probed_) [[unlikely]]
    go_on(now);
  probes_ = 0;
  if (send_.window.unanswered() == 0) return shown;
  start_ack_timer(now);
  start_probe_timer(now);
  return shown;
}

}  // namespace uroce::qp
