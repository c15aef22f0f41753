#pragma once

#include <cstdint>

#include "mem/regions/fast_region.h"
#include "qp/connection/connection.h"
#include "qp/connection/operation_arguments.h"
#include "qp/connection/send_window.h"
#include "qp/connection/turn.h"
#include "queue/work_request.h"

namespace uroce::qp {

// Work requests that send nothing: they change what our keys mean. They are executed once, in the order of
// the send queue, and complete in it. A registration is executed when its turn has come, an invalidation when
// all before it is complete; nothing behind an invalidation starts before it is over.

/// The current request, a local operation that has not started. kDone: it was executed; kBusy: once more in
/// the next turn; kRefused: it can never be.
mem::Outcome execute_registration(Connection& connection, const queue::SendRequest& request, Turn& turn);

/// Begins to bind a window as the current request says, a local operation that has not started; stalls as
/// begin_invalidation() does.
mem::Invalidation::Answer begin_bind(Connection& connection, const queue::SendRequest& request, Turn& turn);

/// Begins the invalidation of one of our keys; while it is pending, or its region busy, the connection
/// stalls. Remote keys also after all other checks of their packet.
mem::Invalidation::Answer begin_invalidation(Connection& connection, Turn& turn, MemoryKey key,
                                             Waiter waiter);

/// Reports and retires what was executed and has come to the head.
void retire_executed(Connection& connection, SendWindow& window, Turn& turn);

}  // namespace uroce::qp
