#include "qp/congestion/swift.h"

#include <cmath>
#include <utility>

#include "base/contract.h"

namespace uroce::qp {

double Swift::rate() const {
  constexpr double kMbpsOfABytePerNs = 8000;
  const auto ns = static_cast<double>(std::max(newest_, Duration{1}).ns);
  return window_ * mtu_ * kMbpsOfABytePerNs / ns;
}

/// Section 3.5, flow scaling: the more flows share a queue, the smaller their windows and the longer the
/// queue that they need.
Duration Swift::target(const SwiftOptions& options) const {
  constexpr double kWindowLeastScaled = 0.1;
  constexpr double kWindowMostScaled = 100;
  if (base_ == Duration{}) return {};
  const double least = 1 / std::sqrt(kWindowMostScaled);
  const double most = 1 / std::sqrt(kWindowLeastScaled);
  const double part = std::clamp((1 / std::sqrt(window_) - least) / (most - least), 0.0, 1.0);
  return base_ + microseconds(options.target_us) +
         nanoseconds(static_cast<int64_t>(part * 1000 * options.scaling_us));
}

void Swift::measured(const SwiftOptions& options, Duration sample, Instant now) {
  UROCE_ASSERT(sample.ns > 0);
  newest_ = sample;
  if (options.base_us != 0) {
    base_ = microseconds(options.base_us);
    based_at_ = now;
  } else if (base_ == Duration{} || sample <= base_) {
    base_ = sample;
    based_at_ = now;
  }
  if (phase_ == Phase::kDrains) return measured_drained(now);
  const Duration target = this->target(options);
  if (sample > target) {
    measured_late(options, target, now);
  } else {
    grow(options);
  }
  if (phase_ == Phase::kSteady && is_base_old(now)) drain();
}

bool Swift::is_base_old(Instant now) const {
  return now - based_at_ > std::max(kBaseAgeMost, base_ * kBaseTripsMost);
}

/// The first round trip is that of a packet which went before.
void Swift::measured_drained(Instant now) {
  ++drain_trips_;
  if (drain_trips_ == 2 || (drain_trips_ > 2 && newest_ < base_)) {
    base_ = newest_;
    based_at_ = now;
  }
  if (drain_trips_ == kDrainTrips) phase_ = Phase::kDoubles;
}

void Swift::measured_late(const SwiftOptions& options, Duration target, Instant now) {
  const double beyond = static_cast<double>((newest_ - target).ns) / static_cast<double>(newest_.ns);
  const double factor =
      std::max(1 - options.beta_percent / 100.0 * beyond, 1 - options.decrease_percent / 100.0);
  if (!decrease(factor, now)) return;
  // The first queue is there: how short the path is without it.
  const bool first = phase_ == Phase::kDoubles && goal_ == kWindowMost && options.base_us == 0;
  phase_ = Phase::kSteady;
  if (first) drain();
}

void Swift::grow(const SwiftOptions& options) {
  // What was not made use of shows nothing about the path.
  if (!std::exchange(filled_, false)) return;
  switch (phase_) {
    case Phase::kFirst:
      window_ = kWindowAtFirst;
      phase_ = Phase::kDoubles;
      return;
    case Phase::kDoubles:
      window_ = std::min(2 * window_, goal_);
      if (window_ == goal_) phase_ = Phase::kSteady;
      return;
    case Phase::kDrains:
    case Phase::kSteady:
      window_ = std::min(window_ + options.increase_percent / 100.0, kWindowMost);
  }
}

void Swift::drain() {
  goal_ = window_;
  window_ = std::min(window_, 1.0);
  drain_trips_ = 0;
  phase_ = Phase::kDrains;
}

void Swift::timed_out(const SwiftOptions& options, Instant now) {
  if (decrease(1 - options.decrease_percent / 100.0, now) && phase_ == Phase::kDoubles)
    phase_ = Phase::kSteady;
}

/// Once in a round trip, for its outcome is seen after so long. True: it was that.
bool Swift::decrease(double factor, Instant now) {
  UROCE_ASSERT(factor >= 0 && factor <= 1);
  if (now - decreased_at_ < newest_) return false;
  decreased_at_ = now;
  window_ = std::max(window_ * factor, kWindowLeast);
  return true;
}

}  // namespace uroce::qp
