#include "qp/connection/completion_report.h"

#include <optional>
#include <utility>

#include "base/values/contract.h"
#include "qp/connection/operation_arguments.h"

namespace uroce::qp {

using queue::Completion;
using queue::CompletionOpcode;
using queue::CompletionStatus;

namespace {

Failure failure_of(CompletionStatus status) {
  switch (status) {
    case CompletionStatus::kRetryExceeded:
      return Failure::kRetryExceeded;
    case CompletionStatus::kRnrRetryExceeded:
      return Failure::kRnrRetryExceeded;
    case CompletionStatus::kRemoteAccessError:
      return Failure::kRemoteAccess;
    case CompletionStatus::kRemoteInvalidRequest:
      return Failure::kRemoteInvalidRequest;
    case CompletionStatus::kRemoteOperationError:
      return Failure::kRemoteOperation;
    case CompletionStatus::kLocalProtectionError:
      return Failure::kLocalProtection;
    case CompletionStatus::kBadResponse:
      return Failure::kBadResponse;
    case CompletionStatus::kLocalLengthError:
      return Failure::kResponseLength;
    case CompletionStatus::kWindowBindError:
      return Failure::kRegionOperation;
    default:
      return Failure::kRequest;
  }
}

/// Completions of the connection's sends, or of its receives, among those that were not published since
/// `lost`.
template <typename Change>
void revise(Connection& connection, Turn& turn, const copy::MessageMark& lost, Change change) {
  const bool receives = lost.kind != copy::MessageMark::Kind::kRead;
  queue::CompletionQueue& queue = receives ? *connection.receive_completions : *connection.send_completions;
  turn.completions.revise(queue, lost.completions, [&](Completion& completion) {
    if (completion.local == connection.number && is_receive(completion.opcode) == receives)
      change(completion);
  });
}

void fail(Completion& completion, CompletionStatus status) {
  completion.status = status;
  completion.bytes = completion.immediate = 0;
  completion.has_immediate = completion.has_invalidated = completion.solicited = completion.has_grh = false;
}

}  // namespace

void overran(Connection& connection, Turn& turn) {
  turn.counters.add(Counter::kCqOverrun);
  connection.broken = true;
  connection.failure = Failure::kCompletionQueueFull;
  if (connection.state() != State::kErr) connection.raise(Event::kFatal);
}

void report_send(Connection& connection, Turn& turn, const queue::SendRequest& request,
                 CompletionStatus status) {
  const bool success = status == CompletionStatus::kSuccess;
  if (success && !request.signaled && !connection.signal_all) return;
  report(connection, turn, *connection.send_completions,
         {.wr_id = request.wr_id,
          .opcode = queue::completion_of(request.operation),
          .status = status,
          .bytes = success ? request.length : 0});
}

void fail_oldest_send(Connection& connection, Turn& turn, CompletionStatus status) {
  UROCE_ASSERT(status != CompletionStatus::kSuccess);
  queue::SendQueue& queue = *connection.send_queue;
  queue::SendRequest& oldest = queue.at(queue.retired());
  report_send(connection, turn, oldest, status);
  drop_operation(queue, oldest);
  queue.retire();
  connection.failure = failure_of(status);
  (connection.reliable ? connection.broken : connection.sends_broken) = true;
}

void revise_receives(Connection& connection, Turn& turn, const copy::MessageMark& lost) {
  UROCE_ASSERT(lost.kind != copy::MessageMark::Kind::kRead);
  auto status = lost.kind == copy::MessageMark::Kind::kSend ? CompletionStatus::kLocalProtectionError
                                                            : CompletionStatus::kFlushed;
  revise(connection, turn, lost, [&](Completion& completion) {
    fail(completion, std::exchange(status, CompletionStatus::kFlushed));
    completion.opcode = CompletionOpcode::kReceive;
  });
}

void revise_sends(Connection& connection, Turn& turn, const copy::MessageMark& lost) {
  UROCE_ASSERT(lost.kind == copy::MessageMark::Kind::kRead);
  // A READ without a completion of its own gets one now, and the later ones move back by one place.
  std::optional<Completion> carried = Completion{.wr_id = lost.wr_id, .opcode = CompletionOpcode::kRead};
  fail(*carried, CompletionStatus::kLocalProtectionError);
  bool first = true;
  revise(connection, turn, lost, [&](Completion& completion) {
    if (std::exchange(first, false) && lost.reported) {
      fail(completion, CompletionStatus::kLocalProtectionError);
      carried.reset();
      return;
    }
    fail(completion, CompletionStatus::kFlushed);
    if (!carried) return;
    carried->local = completion.local;
    carried->remote = completion.remote;
    std::swap(completion, *carried);
  });
  if (carried) report(connection, turn, *connection.send_completions, *carried);
}

}  // namespace uroce::qp
