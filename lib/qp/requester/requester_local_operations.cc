// Send work requests that the requester executes and does not send (invalidations, binds of windows,
// registrations).
//
// Decision: refused REG_MR and LOCAL_INV complete with IBV_WC_MW_BIND_ERR, the memory management operation
// error that mlx5 reports.
#include "base/values/contract.h"
#include "qp/requester/local_operation.h"
#include "qp/requester/requester.h"

namespace uroce::qp {

using mem::Invalidation;
using queue::CompletionStatus;
using queue::SendOperation;
using queue::SendRequest;

/// True when the current request, a local operation, is behind us: the next one is current. Otherwise it may
/// be one for the next turn: `more`.
bool Requester::execute_current(Turn& turn, bool& more) {
  SendRequest& request = send_.window.current();
  UROCE_ASSERT(is_local(request.operation) && !send_.connection.stalled);
  if (!send_.window.current_started()) {
    if (send_.connection.state() == State::kSqd || (request.fence && send_.window.reads() > 0)) return false;
    if (request.operation != SendOperation::kRegister) {
      if (!change_key(turn)) return false;
    } else {
      const mem::Outcome outcome = execute_registration(send_.connection, request, turn);
      if (outcome == mem::Outcome::kRefused) return fail_current(turn, CompletionStatus::kWindowBindError);
      more = outcome == mem::Outcome::kBusy;
      if (more) return false;
    }
    send_.window.executed();
  } else {
    send_.window.pass();
  }
  retire_executed(send_.connection, send_.window, turn);
  return true;
}

/// Invalidates or binds what the current request names. What takes a binding away waits for all that was
/// posted before it: an invalidation, and of the other binds those of type 1. False also while it is under
/// way: the connection is stalled then.
bool Requester::change_key(Turn& turn) {
  const SendRequest& request = send_.window.current();
  const bool binds = request.operation == SendOperation::kBindWindow;
  const bool keeps = binds && !send_.connection.send_queue->operation<BindOperation>(request).type1;
  if (!keeps && !send_.window.current_is_head()) return false;
  const Invalidation::Answer answer =
      binds ? begin_bind(send_.connection, request, turn)
            : begin_invalidation(send_.connection, turn, request.invalidate, Waiter::kSend);
  if (answer == Invalidation::Answer::kRefused) return fail_current(turn, CompletionStatus::kWindowBindError);
  return answer == Invalidation::Answer::kOver;
}

}  // namespace uroce::qp
