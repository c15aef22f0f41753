#include "qp/congestion/flow_limit.h"

#include <new>

#include "base/contract.h"

namespace uroce::qp {

bool FlowLimit::provide(const CongestionOptions& options) {
  if (options.control == CongestionControl::kNone) {
    limited_ = nullptr;
  } else if (limited_ == nullptr) {
    limited_.reset(new (std::nothrow) Limited);
    return limited_ != nullptr;
  }
  return true;
}

void FlowLimit::begin(const CongestionOptions& options, uint32_t mtu, const PathSeen& seen) {
  if (limited_ == nullptr) return;
  UROCE_ASSERT(options.control != CongestionControl::kNone);
  limited_->options = options;
  limited_->limit.begin(options, mtu, seen);
}

void FlowLimit::reset() {
  cnps_ = 0;
  if (limited_ != nullptr) limited_->limit.reset();
}

void FlowLimit::cnp(uint32_t line_mbps, Instant now) {
  ++cnps_;
  if (limited_ == nullptr) return;
  DcqcnOptions& dcqcn = limited_->options.dcqcn;
  if (dcqcn.line_of_port && line_mbps != 0) dcqcn.line_mbps = line_mbps;
  limited_->limit.cnp(limited_->options, now);
}

}  // namespace uroce::qp
