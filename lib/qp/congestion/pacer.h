#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace uroce::qp {

/// Packets at a rate: each leaves when those before it have had their time. What waits leaves deadline() to
/// the timers of the poller.
class Pacer {
 public:
  /// There was no rate before.
  void start(Instant now) { next_ = now; }

  /// One more packet may leave now. False: at deadline(). `mbps`: 0: time holds nothing back.
  [[nodiscard]] bool may_send(double mbps, Instant now) {
    if (mbps == 0 || next_ <= now) {
      next_ = std::max(next_, now - kLateMost);
      deadline_ = kNever;
      return true;
    }
    deadline_ = next_;
    return false;
  }
  /// A packet of so many bytes left at a rate of `mbps`.
  void sent(double mbps, uint32_t bytes) {
    constexpr double kNsPerByteAtOneMbps = 8000;
    if (mbps == 0) return;
    fraction_ns_ += bytes * kNsPerByteAtOneMbps / mbps;
    const auto whole = static_cast<int64_t>(fraction_ns_);
    fraction_ns_ -= static_cast<double>(whole);
    next_ = next_ + nanoseconds(whole);
  }

  /// When what waits may leave; kNever: nothing waits.
  [[nodiscard]] Instant deadline() const { return deadline_; }
  void expire(Instant now) {
    if (now >= deadline_) deadline_ = kNever;
  }

  /// Moments are on a clock that shows `by` more from now on.
  void shift(Duration by) { uroce::shift(by, next_, deadline_); }

 private:
  /// The timers of a poller are late by up to a tick of 16 us, and turns may be. What did not leave meanwhile
  /// leaves then, at once.
  static constexpr Duration kLateMost = microseconds(48);

  Instant next_{INT64_MIN};  // when the next packet leaves, ...
  double fraction_ns_ = 0;   // ... and a part of a nanosecond later
  Instant deadline_ = kNever;
};

}  // namespace uroce::qp
