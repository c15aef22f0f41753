#pragma once

#include "base/counters/latencies.h"
#include "queue/work_request.h"

namespace uroce::qp {

/// What the round trip of a request is counted as.
constexpr Latency latency_of(queue::SendOperation operation) {
  using queue::SendOperation;
  switch (operation) {
    case SendOperation::kWrite:
    case SendOperation::kWriteImm:
      return Latency::kWriteToAck;
    case SendOperation::kRead:
    case SendOperation::kReadInvalidate:
      return Latency::kReadToResponse;
    case SendOperation::kAtomicWrite:
    case SendOperation::kCompareSwap:
    case SendOperation::kFetchAdd:
      return Latency::kAtomicToResponse;
    case SendOperation::kFlush:
      return Latency::kFlushToResponse;
    default:
      return Latency::kSendToAck;
  }
}

}  // namespace uroce::qp
