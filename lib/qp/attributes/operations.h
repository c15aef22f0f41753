#pragma once

#include "qp/attributes/attributes.h"
#include "queue/work_request.h"

namespace uroce::qp {

/// Which operations a queue pair of a type has; all others are refused when they are posted.
constexpr bool has_operation(Type type, queue::SendOperation operation) {
  using queue::SendOperation;
  switch (operation) {
    case SendOperation::kSend:
    case SendOperation::kSendImm:
      return type != Type::kXrcReceive;
    case SendOperation::kWrite:
    case SendOperation::kWriteImm:
    case SendOperation::kLocalInvalidate:
    case SendOperation::kRegister:
    case SendOperation::kBindWindow:
      return type != Type::kXrcReceive && type != Type::kUd;
    // The peer answers these, or must be told of their failure.
    case SendOperation::kSendInvalidate:
    case SendOperation::kRead:
    case SendOperation::kReadInvalidate:
    case SendOperation::kCompareSwap:
    case SendOperation::kFetchAdd:
      return type == Type::kRc || type == Type::kXrcSend;
    case SendOperation::kAtomicWrite:
    case SendOperation::kFlush:
      return type == Type::kRc;
  }
  return false;
}

}  // namespace uroce::qp
