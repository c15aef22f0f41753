#pragma once

#include <cstdint>

#include "base/time.h"
#include "qp/congestion/options.h"

namespace uroce::qp {

/// The rate of a flow by DCQCN ("Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section
/// 3.1, the reaction point). There is no limit until the first CNP, and none any more when the rate has come
/// back to that of the line. The timers' work is done when the rate is asked for, so a queue pair that is
/// idle has none.
class Dcqcn {
 public:
  void reset() { *this = {}; }

  [[nodiscard]] bool limits() const { return limits_; }
  /// R_C, in Mbit/s, while it limits().
  [[nodiscard]] double rate() const { return current_; }
  /// R_T.
  [[nodiscard]] double target() const { return target_; }
  [[nodiscard]] double alpha() const { return alpha_; }

  /// A CNP came. Those that follow one within kReactionLeast change nothing.
  void cnp(const DcqcnOptions& options, Instant now);
  /// So many bytes left.
  void sent(const DcqcnOptions& options, uint64_t bytes);
  /// What timers have done by now.
  void advance(const DcqcnOptions& options, Instant now) {
    if (limits_ && now >= increase_at_) increase_by_time(options, now);
  }

  /// Moments are on a clock that shows `by` more from now on.
  void shift(Duration by) { uroce::shift(by, alpha_at_, increase_at_, reacted_at_); }

 private:
  /// Least time between two reactions, as NICs have it (mlx5, rp_rate_reduce_monitor_period).
  static constexpr Duration kReactionLeast = microseconds(4);
  /// Increases in one call, for a queue pair that was idle; the rest of that time is lost.
  static constexpr uint32_t kIncreasesMost = 4096;

  void decrease_alpha(const DcqcnOptions& options, Instant now);
  void increase_by_time(const DcqcnOptions& options, Instant now);
  void increase(const DcqcnOptions& options);

  bool limits_ = false;
  uint32_t time_stages_ = 0;
  uint32_t byte_stages_ = 0;
  double current_ = 0;
  double target_ = 0;
  double alpha_ = 1;
  uint64_t bytes_ = 0;  // since the last stage of bytes
  Instant alpha_at_{kNever};
  Instant increase_at_{kNever};
  Instant reacted_at_{};
};

}  // namespace uroce::qp
