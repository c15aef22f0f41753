#pragma once

#include "copy/placer.h"
#include "qp/connection/connection.h"
#include "qp/connection/turn.h"
#include "queue/work_request.h"

namespace uroce::qp {

/// The completion queue is full: that breaks the connection.
void overran(Connection& connection, Turn& turn);

/// Reports what `completion` says, which lacks the numbers of the queue pairs. In line, so that it is written
/// in its place at once. Its place is returned, for callers that have more to add; nullptr: there was none.
[[gnu::always_inline]] inline queue::Completion* report(Connection& connection, Turn& turn,
                                                        queue::CompletionQueue& queue,
                                                        queue::Completion completion) {
  completion.local = connection.number;
  if (connection.connected) completion.remote = connection.attributes.destination;
  queue::Completion* const slot = turn.completions.push(queue, completion);
  if (slot == nullptr) [[unlikely]]
    overran(connection, turn);
  return slot;
}

/// Reports the end of a send work request: a success only when it was asked for, anything else always. A full
/// completion queue breaks the connection. Does not retire the request.
void report_send(Connection& connection, Turn& turn, const queue::SendRequest& request,
                 queue::CompletionStatus status);

/// Reports the success of a send work request, when that was asked for.
inline void report_success(Connection& connection, Turn& turn, const queue::SendRequest& request) {
  if (request.signaled || connection.signal_all)
    report_send(connection, turn, request, queue::CompletionStatus::kSuccess);
}

/// Reports and retires the oldest send work request as failed, which breaks the connection, or
/// the sending of one that is not reliable.
void fail_oldest_send(Connection& connection, Turn& turn, queue::CompletionStatus status);

/// Reports the end of the oldest receive work request, which is `receive`, and retires it. `completion` holds
/// what the message said; work request id and queue pair numbers are filled in here. Returns what report()
/// does.
[[gnu::always_inline]] inline queue::Completion* report_receive(Connection& connection, Turn& turn,
                                                                queue::Completion completion,
                                                                const queue::ReceiveRequest& receive) {
  UROCE_ASSERT(&receive == &connection.receives.current());
  completion.wr_id = receive.wr_id;
  queue::Completion* const said = report(connection, turn, *connection.receive_completions, completion);
  connection.receives.retire();
  return said;
}

[[gnu::always_inline]] inline queue::Completion* report_receive(Connection& connection, Turn& turn,
                                                                queue::Completion completion) {
  return report_receive(connection, turn, completion, connection.receives.current());
}

/// The end of an incoming message could not be placed, when it and those behind it had been reported already
/// (but not published): a SEND failed with a local protection error, what came later is flushed.
void revise_receives(Connection& connection, Turn& turn, const copy::MessageMark& lost);

/// The end of a READ could not be placed: the READ fails, also when its success was not to be reported.
void revise_sends(Connection& connection, Turn& turn, const copy::MessageMark& lost);

}  // namespace uroce::qp
