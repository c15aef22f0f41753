#pragma once

#include "base/counters/latencies.h"
#include "queue/work_request.h"

// Decision: the operation of a round trip is noted when its packet goes (LossRecovery::sent()). The program
// may reuse the request before the answer comes. Cost: a test for each packet that is timed.

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
