#include "qp/requester/local_operation.h"

#include "base/values/contract.h"
#include "qp/connection/completion_report.h"

namespace uroce::qp {

using mem::Invalidation;
using queue::SendOperation;

mem::Outcome execute_registration(Connection& connection, const queue::SendRequest& request, Turn& turn) {
  UROCE_ASSERT(request.operation == SendOperation::kRegister);
  const auto wanted = connection.send_queue->operation<RegisterOperation>(request);
  return mem::bind_fast_region(turn.regions, wanted, connection.key_user().domain);
}

namespace {

Invalidation::Answer stall_for(Connection& connection, Invalidation::Answer answer, Waiter waiter) {
  UROCE_ASSERT(connection.waiter == Waiter::kNone && waiter != Waiter::kNone);
  if (answer == Invalidation::Answer::kPending) connection.waiter = waiter;
  connection.stalled = answer == Invalidation::Answer::kPending || answer == Invalidation::Answer::kBusy;
  return answer;
}

}  // namespace

Invalidation::Answer begin_bind(Connection& connection, const queue::SendRequest& request, Turn& turn) {
  UROCE_ASSERT(request.operation == SendOperation::kBindWindow);
  const auto wanted = connection.send_queue->operation<BindOperation>(request);
  return stall_for(connection,
                   connection.invalidation.begin_bind(turn.regions, wanted, connection.key_user()),
                   Waiter::kSend);
}

Invalidation::Answer begin_invalidation(Connection& connection, Turn& turn, MemoryKey key, Waiter waiter) {
  const Invalidation::Answer answer = connection.invalidation.begin(turn.regions, key, connection.key_user());
  if (turn.notices != nullptr && connection.invalidation.ended_binding()) [[unlikely]]
    turn.notices->note({.kind = Notice::Kind::kInvalidated,
                        .queue_pair = connection.number,
                        .peer = connection.attributes.destination,
                        .key = key,
                        .address = connection.attributes.path.destination});
  return stall_for(connection, answer, waiter);
}

void retire_executed(Connection& connection, SendWindow& window, Turn& turn) {
  UROCE_ASSERT(!connection.stalled);
  while (window.head_is_executed()) {
    report_send(connection, turn, window.head(), queue::CompletionStatus::kSuccess);
    window.retire_executed();
  }
}

}  // namespace uroce::qp
