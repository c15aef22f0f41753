#include "qp/congestion/rate_limit.h"

#include <algorithm>

namespace uroce::qp {

bool RateLimit::may_send(const CongestionOptions& options, Instant now) {
  dcqcn_.advance(options.dcqcn, now);
  if (!limits() || next_ <= now) {
    next_ = std::max(next_, now - kLateMost);
    wake_at_ = kNever;
    return true;
  }
  wake_at_ = next_;
  return false;
}

void RateLimit::sent(const CongestionOptions& options, uint32_t bytes) {
  constexpr double kNsPerByteAtOneMbps = 8000;
  if (!limits()) return;
  fraction_ns_ += bytes * kNsPerByteAtOneMbps / dcqcn_.rate();
  const auto whole = static_cast<int64_t>(fraction_ns_);
  fraction_ns_ -= static_cast<double>(whole);
  next_ = next_ + nanoseconds(whole);
  dcqcn_.sent(options.dcqcn, bytes);
}

}  // namespace uroce::qp
