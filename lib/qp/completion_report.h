#pragma once

#include "copy/placer.h"
#include "qp/connection.h"
#include "qp/turn.h"
#include "queue/work_request.h"

namespace uroce::qp {

/// Reports the end of a send work request: a success only when it was asked for, anything else always. A full
/// completion queue breaks the connection. Does not retire the request.
void report_send(Connection& connection, Turn& turn, const queue::SendRequest& request,
                 queue::CompletionStatus status);

/// The same of a success.
inline void report_success(Connection& connection, Turn& turn, const queue::SendRequest& request) {
  if (request.signaled || connection.options.signal_all)
    report_send(connection, turn, request, queue::CompletionStatus::kSuccess);
}

/// Reports and retires the oldest send work request as failed, which breaks the connection, or
/// the sending of one that is not reliable.
void fail_oldest_send(Connection& connection, Turn& turn, queue::CompletionStatus status);

/// Reports the end of the oldest receive work request and retires it. `completion` holds what the message
/// said; work request id and queue pair numbers are filled in here.
void report_receive(Connection& connection, Turn& turn, queue::Completion completion);

/// The end of an incoming message could not be placed, when it and those behind it had been reported already
/// (to nobody yet): a SEND failed with a local protection error, what came later is flushed.
void revise_receives(Connection& connection, Turn& turn, const copy::MessageMark& lost);

/// The same for the end of a READ, which fails also if nobody wanted to hear of its success.
void revise_sends(Connection& connection, Turn& turn, const copy::MessageMark& lost);

}  // namespace uroce::qp
