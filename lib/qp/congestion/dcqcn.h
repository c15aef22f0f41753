#pragma once

#include <cstdint>

#include "base/values/time.h"
#include "qp/congestion/algorithm.h"

namespace uroce::qp {

/// The rate of a flow by DCQCN (lib/README.md, wire fact 13; its reaction point). There is no limit until the
/// first CNP, and none any more when the rate has come back to that of the line.
class Dcqcn : public CongestionAlgorithm {
 public:
  // Names and values of the paper (sections 3.1 and 5).
  static constexpr double kGain = 1.0 / 256;                         // g
  static constexpr Duration kAlphaPeriod = microseconds(55);         // without a CNP for so long, alpha falls
  static constexpr Duration kIncreasePeriod = microseconds(55);      // T
  static constexpr uint64_t kIncreaseBytes = uint64_t{10240} << 10;  // B
  static constexpr uint32_t kRecoveryStages = 5;                     // F
  static constexpr double kAdditiveMbps = 40;                        // R_AI
  static constexpr double kHyperMbps = 400;                          // R_HAI
  /// No CNP goes below this rate. The paper has none; without one, a flood of CNPs would end the flow.
  static constexpr double kLeastMbps = 10;
  /// Least time between two reactions, as NICs have it (mlx5, rp_rate_reduce_monitor_period).
  static constexpr Duration kReactionLeast = microseconds(4);

  /// `line_mbps`: R_C and R_T at the first CNP; a rate that reaches it is no limit any more. 0: the port's.
  explicit Dcqcn(uint32_t line_mbps);

  void path_changed(uint32_t mtu) override;
  /// A CNP that follows one within kReactionLeast changes nothing.
  void cnp(uint32_t port_mbps, Instant now) override;
  void sent(uint32_t bytes) override;
  void advance(Instant now) override;
  void shift(Duration by) override { uroce::shift(by, alpha_at_, increase_at_, reacted_at_); }

  /// R_T.
  [[nodiscard]] double target() const { return target_; }
  [[nodiscard]] double alpha() const { return alpha_; }

 private:
  /// Where neither configuration nor port tells the speed of the link.
  static constexpr uint32_t kLineMbpsUnknown = 100'000;
  /// Increases in one call, for a queue pair that was idle; the rest of that time is lost.
  static constexpr uint32_t kIncreasesMost = 4096;

  void decrease_alpha(Instant now);
  void increase();

  const bool line_of_port_;
  uint32_t line_mbps_;
  uint32_t time_stages_ = 0;
  uint32_t byte_stages_ = 0;
  double target_ = 0;
  double alpha_ = 1;
  uint64_t bytes_ = 0;  // since the last stage of bytes
  Instant alpha_at_{kNever};
  Instant increase_at_{kNever};
  Instant reacted_at_{};
};

}  // namespace uroce::qp
