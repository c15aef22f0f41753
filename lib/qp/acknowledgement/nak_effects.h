#pragma once

#include "base/counters/counters.h"
#include "queue/completion_queue.h"
#include "wire/headers.h"

// What becomes of a NAK at the requester.
namespace uroce::qp {

/// The status in which the refused request completes (lib/README.md, wire fact 6).
inline queue::CompletionStatus status_of(wire::NakCode code) {
  switch (code) {
    case wire::NakCode::kInvalidRequest:
      return queue::CompletionStatus::kRemoteInvalidRequest;
    case wire::NakCode::kRemoteAccess:
      return queue::CompletionStatus::kRemoteAccessError;
    default:
      return queue::CompletionStatus::kRemoteOperationError;
  }
}

/// What counts that it came.
inline Counter counter_of(wire::NakCode code) {
  switch (code) {
    case wire::NakCode::kSequenceError:
      return Counter::kSequenceNakReceived;
    case wire::NakCode::kInvalidRequest:
      return Counter::kInvalidRequestNakReceived;
    case wire::NakCode::kRemoteAccess:
      return Counter::kAccessNakReceived;
    case wire::NakCode::kRemoteOperational:
      return Counter::kOperationalNakReceived;
    case wire::NakCode::kInvalidRdRequest:
      break;
  }
  return Counter::kDropBadAck;
}

}  // namespace uroce::qp
