// Decision: a window limits requests and the READs that they ask for, not responses. Round trips are measured
// only where we wait for answers.
//
// Decision: the shortest round trip is measured, unless `congestion.base_us` gives it, by flows that drain
// for a while (swift.h). Lengths of paths are not known here. Cost: flows that start one after the other are
// unfair for a while.
#include "qp/congestion/swift.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "base/values/contract.h"
#include "qp/congestion/options.h"

namespace uroce::qp {

std::unique_ptr<CongestionAlgorithm> make_swift(const CongestionOptions& options) {
  return std::unique_ptr<CongestionAlgorithm>(
      new (std::nothrow) Swift({.base = microseconds(options.parameters["base_us"]),
                                .target = microseconds(options.parameters["target_us"])}));
}

void Swift::path_changed(uint32_t mtu) {
  window_ = 1;
  goal_ = kWindowMost;
  base_ = newest_ = {};
  decreased_at_ = Instant{INT64_MIN / 2};
  based_at_ = {};
  mtu_ = mtu;
  drain_trips_ = 0;
  phase_ = Phase::kFirst;
  filled_ = false;
  decide();
}

/// A window below one packet is time between packets.
void Swift::decide() {
  limit_window(window_);
  if (window_ >= 1) return;
  constexpr double kMbpsOfABytePerNs = 8000;
  const auto ns = static_cast<double>(std::max(newest_, Duration{1}).ns);
  limit_rate(window_ * mtu_ * kMbpsOfABytePerNs / ns);
}

/// Section 3.5, flow scaling: the more flows share a queue, the smaller their windows and the longer the
/// queue that they need.
Duration Swift::target() const {
  if (base_ == Duration{}) return {};
  const double least = 1 / std::sqrt(kScaledMost);
  const double most = 1 / std::sqrt(kScaledLeast);
  const double part = std::clamp((1 / std::sqrt(window_) - least) / (most - least), 0.0, 1.0);
  return base_ + options_.target + nanoseconds(static_cast<int64_t>(part * static_cast<double>(kScaling.ns)));
}

void Swift::acknowledged(Duration round_trip, Instant now) {
  UROCE_ASSERT(round_trip.ns > 0);
  newest_ = round_trip;
  if (options_.base != Duration{}) {
    base_ = options_.base;
    based_at_ = now;
  } else if (base_ == Duration{} || round_trip <= base_) {
    base_ = round_trip;
    based_at_ = now;
  }
  if (phase_ == Phase::kDrains) {
    measured_drained(now);
  } else {
    measured(now);
  }
  decide();
}

void Swift::measured(Instant now) {
  const Duration target = this->target();
  if (newest_ > target) {
    measured_late(target, now);
  } else {
    grow();
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

void Swift::measured_late(Duration target, Instant now) {
  const double beyond = static_cast<double>((newest_ - target).ns) / static_cast<double>(newest_.ns);
  const double factor = std::max(1 - kBeta * beyond, 1 - kDecreaseMost);
  if (!decrease(factor, now)) return;
  // The first queue is there: how short the path is without it.
  const bool first = phase_ == Phase::kDoubles && goal_ == kWindowMost && options_.base == Duration{};
  phase_ = Phase::kSteady;
  if (first) drain();
}

void Swift::grow() {
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
      window_ = std::min(window_ + kIncrease, kWindowMost);
  }
}

void Swift::drain() {
  goal_ = window_;
  window_ = std::min(window_, 1.0);
  drain_trips_ = 0;
  phase_ = Phase::kDrains;
}

void Swift::timed_out(Instant now) {
  if (decrease(1 - kDecreaseMost, now) && phase_ == Phase::kDoubles) phase_ = Phase::kSteady;
  decide();
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
