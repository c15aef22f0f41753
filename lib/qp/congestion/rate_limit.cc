#include "qp/congestion/rate_limit.h"

#include <algorithm>
#include <utility>

namespace uroce::qp {

void RateLimit::begin(const CongestionOptions& options, uint32_t mtu, const PathSeen& seen) {
  algorithm_ = {};
  limits_ = options.control == CongestionControl::kSwift;
  if (limits_) algorithm_.emplace<Swift>(mtu);
  samples_ = seen.samples;
  timeouts_ = seen.timeouts;
  wake_at_ = kNever;
}

double RateLimit::rate() const {
  if (!limits_) return 0;
  if (const auto* const dcqcn = std::get_if<Dcqcn>(&algorithm_)) return dcqcn->rate();
  const Swift& swift = std::get<Swift>(algorithm_);
  return swift.window() < 1 ? swift.rate() : 0;
}

void RateLimit::cnp(const CongestionOptions& options, Instant now) {
  if (options.control != CongestionControl::kDcqcn) return;
  if (!std::holds_alternative<Dcqcn>(algorithm_)) algorithm_.emplace<Dcqcn>();
  if (!limits_) next_ = now;
  Dcqcn& dcqcn = std::get<Dcqcn>(algorithm_);
  dcqcn.cnp(options.dcqcn, now);
  limits_ = dcqcn.limits();
}

void RateLimit::shift(Duration by) {
  uroce::shift(by, next_, wake_at_);
  if (auto* const dcqcn = std::get_if<Dcqcn>(&algorithm_)) dcqcn->shift(by);
  if (auto* const swift = std::get_if<Swift>(&algorithm_)) swift->shift(by);
}

void RateLimit::heed(const CongestionOptions& options, const PathSeen& seen, Instant now) {
  auto* const swift = std::get_if<Swift>(&algorithm_);
  if (swift == nullptr) return;
  if (std::exchange(timeouts_, seen.timeouts) != seen.timeouts) swift->timed_out(options.swift, now);
  if (std::exchange(samples_, seen.samples) != seen.samples)
    swift->measured(options.swift, seen.round_trip, now);
}

bool RateLimit::may_send(const CongestionOptions& options, Instant now) {
  if (auto* const dcqcn = std::get_if<Dcqcn>(&algorithm_)) {
    dcqcn->advance(options.dcqcn, now);
    limits_ = dcqcn->limits();
  }
  if (rate() == 0 || next_ <= now) {
    next_ = std::max(next_, now - kLateMost);
    wake_at_ = kNever;
    return true;
  }
  wake_at_ = next_;
  return false;
}

void RateLimit::sent(const CongestionOptions& options, uint32_t bytes) {
  constexpr double kNsPerByteAtOneMbps = 8000;
  const double rate = this->rate();
  if (rate == 0) return;
  fraction_ns_ += bytes * kNsPerByteAtOneMbps / rate;
  const auto whole = static_cast<int64_t>(fraction_ns_);
  fraction_ns_ -= static_cast<double>(whole);
  next_ = next_ + nanoseconds(whole);
  auto* const dcqcn = std::get_if<Dcqcn>(&algorithm_);
  if (dcqcn == nullptr) return;
  dcqcn->sent(options.dcqcn, bytes);
  limits_ = dcqcn->limits();
}

}  // namespace uroce::qp
