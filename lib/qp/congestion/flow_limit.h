#pragma once

#include <cstdint>
#include <memory>

#include "base/time.h"
#include "qp/congestion/options.h"
#include "qp/congestion/rate_limit.h"

namespace uroce::qp {

/// What holds back a connection: a RateLimit, which has memory from the moment on at which an algorithm is
/// chosen, and else nothing. provide() alone allocates.
class FlowLimit {
 public:
  /// There is memory for the algorithm of `options` from now on, or none for kNone. False: there is none to
  /// be had, and nothing has changed.
  [[nodiscard]] bool provide(const CongestionOptions& options);
  /// The connection can send, or gets another algorithm, after provide(). `seen`: of its path so far.
  void begin(const CongestionOptions& options, uint32_t mtu, const PathSeen& seen);
  /// Nothing is held back, and no CNP has come.
  void reset();

  // As RateLimit.
  [[nodiscard]] bool limits() const { return limited_ != nullptr && limited_->limit.limits(); }
  [[nodiscard]] bool limits_responses() const {
    return limited_ != nullptr && limited_->limit.limits_responses();
  }
  [[nodiscard]] uint32_t window() const {
    return limited_ != nullptr ? limited_->limit.window() : UINT32_MAX;
  }
  [[nodiscard]] double rate() const { return limited_ != nullptr ? limited_->limit.rate() : 0; }
  [[nodiscard]] Instant deadline() const { return limited_ != nullptr ? limited_->limit.deadline() : kNever; }
  void expire(Instant now) {
    if (limited_ != nullptr) limited_->limit.expire(now);
  }
  void shift(Duration by) {
    if (limited_ != nullptr) limited_->limit.shift(by);
  }

  /// CNPs that came, whatever the algorithm, modulo 2^32.
  [[nodiscard]] uint32_t cnps() const { return cnps_; }
  /// `line_mbps`: speed of the port's link; 0: unknown.
  void cnp(uint32_t line_mbps, Instant now);

  // While it limits(), as RateLimit.
  void heed(const PathSeen& seen, Instant now) { limited_->limit.heed(limited_->options, seen, now); }
  void filled() { limited_->limit.filled(); }
  [[nodiscard]] bool may_send(Instant now) { return limited_->limit.may_send(limited_->options, now); }
  void sent(uint32_t bytes) { limited_->limit.sent(limited_->options, bytes); }

 private:
  struct Limited {
    CongestionOptions options;  // with the speed of the line at the last CNP
    RateLimit limit;
  };

  std::unique_ptr<Limited> limited_;
  uint32_t cnps_ = 0;
};

}  // namespace uroce::qp
