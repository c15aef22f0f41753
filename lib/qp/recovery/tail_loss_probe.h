#pragma once

#include <algorithm>
#include <cstdint>

#include "base/values/time.h"
#include "qp/recovery/rtt_estimator.h"
#include "qp/recovery/transport_timers.h"

namespace uroce::qp {

/// The probe timer (RFC 8985, section 7): the oldest packet is sent again when an answer is later than round
/// trips so far let expect. A probe is no retry: only the ACK timeout counts as one.
///
/// Decision: lost tails are probed for before anything else was lost, too (`recovery.tail_probes`). Nothing
/// behind a tail shows the gap, and an ACK timeout is long. Cost: duplicates to a peer that is merely slow;
/// it gets one probe until it answers, and each spurious probe doubles the wait for the next one.
///
/// Decision: where something was lost once, probes go on until the ACK timeout, each after twice the time of
/// the one before. What is sent again may be lost again. Cost: duplicates while a peer is away.
class TailLossProbe {
 public:
  void reset() { *this = {}; }

  /// Packets left, up to the tail.
  void sent(Instant now) { sent_at_ = now; }
  /// Starts, or starts anew. `before_loss`: also where nothing was lost so far. `code`: the queue pair's
  /// `timeout`, a part of which is waited for while no round trip is known.
  void start(const RttEstimator& rtt, bool before_loss, uint8_t code, Instant now) {
    const Duration patience = rtt.patience();
    deadline_ = kNever;
    if (!lossy_) [[likely]] {
      if (before_loss && probes_ == 0) deadline_ = tail_deadline(rtt, code, now);
    } else if (patience != RttEstimator::kUnknown) {
      deadline_ = now + Duration{patience.ns << probes_};
    }
  }
  void stop() { deadline_ = kNever; }
  /// All that is unanswered is sent again: there is nothing to probe for.
  void cancel() {
    probes_ = 0;
    stop();
  }
  [[nodiscard]] bool runs() const { return deadline_ != kNever; }
  [[nodiscard]] Instant deadline() const { return deadline_; }

  /// The deadline has passed: a probe is to go.
  void expired() {
    probes_ = static_cast<uint8_t>(std::min(probes_ + 1u, kDoublingsMax));
    stop();
  }
  /// Probes since the last progress.
  [[nodiscard]] uint32_t probes() const { return probes_; }
  void acknowledged() { probes_ = 0; }
  /// A packet was lost on this connection.
  void note_loss() { lossy_ = true; }

  /// What was probed for is answered, `took` after the probe, if that has `left`. Where nothing was lost it
  /// was spurious if the answer came before it can have been one to the probe, or so late that the peer was
  /// off.
  void judge(const RttEstimator& rtt, bool left, Duration took) {
    if (probes_ == 0 || lossy_) return;
    const bool spurious = !left || took < Duration{rtt.least().ns / 2} || took > rtt.tail_patience();
    const uint32_t count = spurious ? std::min(spurious_ + 1u, kSpuriousMax) : spurious_ / 2u;
    spurious_ = static_cast<uint8_t>(count);
  }

  /// Moments are on a clock that shows `by` more from now on.
  void shift(Duration by) { uroce::shift(by, deadline_, sent_at_); }

 private:
  static constexpr uint32_t kDoublingsMax = 16;
  static constexpr uint32_t kSpuriousMax = 10;  // 100 us become more than an ACK timeout of 67 ms
  /// ACK timeouts are times that a peer surely answers in, and round trips small parts of them.
  static constexpr int64_t kFirstPatiencePart = 16;

  /// While answers come they may come slowly, one after the other.
  [[nodiscard]] Instant tail_deadline(const RttEstimator& rtt, uint8_t code, Instant now) const {
    Duration patience = rtt.tail_patience();
    if (patience == RttEstimator::kUnknown) [[unlikely]]
      patience = first_patience(code);
    patience = Duration{patience.ns << spurious_};
    return std::max(sent_at_ + patience, now + Duration{patience.ns / 2});
  }
  /// How long a probe waits before any round trip is known.
  [[nodiscard, gnu::cold, gnu::noinline]] static Duration first_patience(uint8_t code) {
    if (code == kNoAckTimeout) return RttEstimator::kPatienceFirst;
    return std::max(Duration{ack_timeout(code).ns / kFirstPatiencePart}, RttEstimator::kPatienceFirst);
  }

  Instant deadline_ = kNever;
  Instant sent_at_{};
  uint8_t probes_ = 0;
  uint8_t spurious_ = 0;  // doublings of the wait; half after a probe that was needed
  bool lossy_ = false;
};

}  // namespace uroce::qp
