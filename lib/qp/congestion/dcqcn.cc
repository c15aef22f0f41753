// The reaction point, as the paper has it (lib/README.md, wire fact 13):
//
//   at first                   | a = 1, R_C is the rate of the line
//   CNP                        | R_T = R_C, R_C = R_C (1 - a/2), a = (1 - g) a + g; byte counter, timer and
//                              | both stages begin anew
//   period of alpha, no CNP    | a = (1 - g) a
//   stage: every B bytes, or T | R_C = (R_T + R_C) / 2; before that R_T grows by R_AI beyond F stages of one
//                              | kind, by R_HAI beyond F of both
#include "qp/congestion/dcqcn.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "base/values/contract.h"
#include "qp/congestion/options.h"

namespace uroce::qp {

std::unique_ptr<CongestionAlgorithm> make_dcqcn(const CongestionOptions& options) {
  return std::unique_ptr<CongestionAlgorithm>(new (std::nothrow) Dcqcn(options.parameters["line_mbps"]));
}

Dcqcn::Dcqcn(uint32_t line_mbps)
    : line_of_port_(line_mbps == 0), line_mbps_(line_of_port_ ? kLineMbpsUnknown : line_mbps) {}

void Dcqcn::path_changed(uint32_t /*mtu*/) {
  limit_nothing();
  time_stages_ = byte_stages_ = 0;
  target_ = 0;
  alpha_ = 1;
  bytes_ = 0;
  alpha_at_ = increase_at_ = kNever;
  reacted_at_ = {};
}

void Dcqcn::cnp(uint32_t port_mbps, Instant now) {
  if (line_of_port_ && port_mbps != 0) line_mbps_ = port_mbps;
  advance(now);
  if (limits() && now < reacted_at_ + kReactionLeast) return;
  decrease_alpha(now);
  target_ = limits() ? mbps() : line_mbps_;
  limit_rate(std::max(kLeastMbps, target_ * (1 - alpha_ / 2)));
  alpha_ = (1 - kGain) * alpha_ + kGain;
  time_stages_ = byte_stages_ = 0;
  bytes_ = 0;
  reacted_at_ = now;
  alpha_at_ = now + kAlphaPeriod;
  increase_at_ = now + kIncreasePeriod;
  UROCE_ASSERT(alpha_ > 0 && alpha_ <= 1);
}

/// For each period without a CNP. Only the next CNP asks for alpha, so that it is done then.
void Dcqcn::decrease_alpha(Instant now) {
  if (now < alpha_at_) return;
  const int64_t periods = (now - alpha_at_).ns / kAlphaPeriod.ns + 1;
  alpha_ *= std::pow(1 - kGain, periods);
  alpha_ = std::max(alpha_, 1e-9);
}

void Dcqcn::sent(uint32_t bytes) {
  bytes_ += bytes;
  while (limits() && bytes_ >= kIncreaseBytes) {
    bytes_ -= kIncreaseBytes;
    ++byte_stages_;
    increase();
  }
}

void Dcqcn::advance(Instant now) {
  for (uint32_t i = 0; limits() && now >= increase_at_; ++i) {
    if (i == kIncreasesMost) {
      increase_at_ = now + kIncreasePeriod;
      return;
    }
    increase_at_ = increase_at_ + kIncreasePeriod;
    ++time_stages_;
    increase();
  }
}

/// Half of the way back to where the rate was, or, after enough stages of one kind or of both, to more.
void Dcqcn::increase() {
  if (std::min(time_stages_, byte_stages_) > kRecoveryStages) {
    target_ += kHyperMbps;
  } else if (std::max(time_stages_, byte_stages_) > kRecoveryStages) {
    target_ += kAdditiveMbps;
  }
  target_ = std::min<double>(target_, line_mbps_);
  const double rate = (mbps() + target_) / 2;
  // Halving the rest has no end.
  constexpr double kNearlyAll = 0.999;
  if (rate < line_mbps_ * kNearlyAll) {
    limit_rate(rate);
  } else {
    limit_nothing();
  }
}

}  // namespace uroce::qp
