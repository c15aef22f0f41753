#pragma once

#include <cstdint>

#include "base/time.h"
#include "qp/congestion/dcqcn.h"
#include "qp/congestion/options.h"

namespace uroce::qp {

/// When the next packet of a queue pair may leave. Requests and the responses to READs share one rate. What
/// waits for its time leaves deadline() to the timers of the poller.
class RateLimit {
 public:
  /// Nothing is held back, until the next CNP.
  void reset() { *this = {}; }

  /// Packets are held back: ask may_send() before each, and tell sent().
  [[nodiscard]] bool limits() const { return dcqcn_.limits(); }
  [[nodiscard]] const Dcqcn& dcqcn() const { return dcqcn_; }

  void cnp(const CongestionOptions& options, Instant now) {
    if (options.control != CongestionControl::kDcqcn) return;
    if (!limits()) next_ = now;
    dcqcn_.cnp(options.dcqcn, now);
  }

  /// One more packet may leave now. False: at deadline().
  [[nodiscard]] bool may_send(const CongestionOptions& options, Instant now);
  void sent(const CongestionOptions& options, uint32_t bytes);

  /// When what waits may leave; kNever: nothing waits.
  [[nodiscard]] Instant deadline() const { return wake_at_; }
  void expire(Instant now) {
    if (now >= wake_at_) wake_at_ = kNever;
  }

 private:
  /// The timers of a poller are late by up to a tick of 16 us, and turns may be. What did not leave
  /// meanwhile leaves then, at once.
  static constexpr Duration kLateMost = microseconds(48);

  Dcqcn dcqcn_;
  Instant next_{INT64_MIN};  // when the next packet leaves, ...
  double fraction_ns_ = 0;   // ... and a part of a nanosecond later
  Instant wake_at_ = kNever;
};

}  // namespace uroce::qp
