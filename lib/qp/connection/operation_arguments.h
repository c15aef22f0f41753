#pragma once

#include "mem/regions/fast_region.h"
#include "mem/regions/window.h"
#include "queue/work_queue.h"
#include "queue/work_request.h"

namespace uroce::qp {

/// What lies behind a request to register: mem::FastBinding. Its page list is the stack's until the request
/// was executed or dropped.
using RegisterOperation = mem::FastBinding;
/// What lies behind a request to bind a window.
using BindOperation = mem::WindowBinding;

/// Gives back what a request holds that will not be executed any more. Nothing to do for most.
inline void drop_operation(const queue::SendQueue& queue, const queue::SendRequest& request) {
  if (request.operation != queue::SendOperation::kRegister) return;
  queue.operation<RegisterOperation>(request).pages->give_back();
}

}  // namespace uroce::qp
