#pragma once

#include "qp/attributes/attributes.h"
#include "queue/operation.h"

namespace uroce::qp {

/// Which operations a queue pair of a type has; all others are refused when they are posted.
constexpr bool has_operation(Type type, queue::SendOperation operation) {
  const queue::OperationServices& services = queue::row_of(operation).services;
  switch (type) {
    case Type::kRc:
      return services.rc;
    case Type::kUc:
      return services.uc;
    case Type::kUd:
      return services.ud;
    case Type::kXrcSend:
      return services.xrc;
    case Type::kXrcReceive:
      break;
  }
  return false;
}

}  // namespace uroce::qp
