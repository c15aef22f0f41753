#include "qp/congestion/dcqcn.h"

#include <algorithm>
#include <cmath>

#include "base/contract.h"

namespace uroce::qp {

void Dcqcn::cnp(const DcqcnOptions& options, Instant now) {
  advance(options, now);
  if (limits_ && now < reacted_at_ + kReactionLeast) return;
  decrease_alpha(options, now);
  if (!limits_) current_ = options.line_mbps;
  limits_ = true;
  target_ = current_;
  current_ = std::max<double>(options.least_mbps, current_ * (1 - alpha_ / 2));
  const double gain = std::ldexp(1.0, -static_cast<int>(options.gain_shift));
  alpha_ = (1 - gain) * alpha_ + gain;
  time_stages_ = byte_stages_ = 0;
  bytes_ = 0;
  reacted_at_ = now;
  alpha_at_ = now + microseconds(options.alpha_us);
  increase_at_ = now + microseconds(options.increase_us);
  UROCE_ASSERT(alpha_ > 0 && alpha_ <= 1 && current_ <= target_);
}

/// For each period without a CNP. Only the next CNP asks for alpha, so that it is done then.
void Dcqcn::decrease_alpha(const DcqcnOptions& options, Instant now) {
  if (now < alpha_at_) return;
  const int64_t periods = (now - alpha_at_).ns / microseconds(options.alpha_us).ns + 1;
  alpha_ *= std::pow(1 - std::ldexp(1.0, -static_cast<int>(options.gain_shift)), periods);
  alpha_ = std::max(alpha_, 1e-9);
}

void Dcqcn::sent(const DcqcnOptions& options, uint64_t bytes) {
  const uint64_t stage = uint64_t{options.increase_kib} << 10;
  bytes_ += bytes;
  while (limits_ && bytes_ >= stage) {
    bytes_ -= stage;
    ++byte_stages_;
    increase(options);
  }
}

void Dcqcn::increase_by_time(const DcqcnOptions& options, Instant now) {
  const Duration period = microseconds(options.increase_us);
  for (uint32_t i = 0; limits_ && now >= increase_at_; ++i) {
    if (i == kIncreasesMost) {
      increase_at_ = now + period;
      return;
    }
    increase_at_ = increase_at_ + period;
    ++time_stages_;
    increase(options);
  }
}

/// Half of the way back to where the rate was, or, after enough stages of one kind or of both, to more.
void Dcqcn::increase(const DcqcnOptions& options) {
  if (std::min(time_stages_, byte_stages_) > options.recovery_stages) {
    target_ += options.hyper_mbps;
  } else if (std::max(time_stages_, byte_stages_) > options.recovery_stages) {
    target_ += options.additive_mbps;
  }
  target_ = std::min<double>(target_, options.line_mbps);
  current_ = (current_ + target_) / 2;
  // Halving the rest has no end.
  constexpr double kNearlyAll = 0.999;
  limits_ = current_ < options.line_mbps * kNearlyAll;
}

}  // namespace uroce::qp
