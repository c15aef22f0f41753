#include "qp/local_operation.h"

#include "qp/completion_report.h"

namespace uroce::qp {

using mem::Invalidation;
using queue::SendOperation;

mem::Outcome execute_registration(Connection& connection, const queue::SendRequest& request, Turn& turn) {
  const auto wanted = connection.options.send_queue->operation<RegisterOperation>(request);
  return mem::bind_fast_region(turn.regions, wanted, connection.options.domain);
}

void drop_operation(const queue::SendQueue& queue, const queue::SendRequest& request) {
  if (request.operation != SendOperation::kRegister) return;
  queue.operation<RegisterOperation>(request).pages->give_back();
}

Invalidation::Answer begin_invalidation(Connection& connection, Turn& turn, MemoryKey key,
                                        Invalidation::Origin origin, Waiter waiter) {
  const Invalidation::Answer answer =
      connection.invalidation->begin(turn.regions, key, connection.key_user(), origin);
  if (answer == Invalidation::Answer::kPending) connection.waiter = waiter;
  connection.stalled = answer == Invalidation::Answer::kPending || answer == Invalidation::Answer::kBusy;
  return answer;
}

void retire_executed(Connection& connection, SendWindow& window, Turn& turn) {
  while (window.head_is_executed()) {
    report_send(connection, turn, window.head(), queue::CompletionStatus::kSuccess);
    window.retire_executed();
  }
}

}  // namespace uroce::qp
