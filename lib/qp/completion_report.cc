#include "qp/completion_report.h"

namespace uroce::qp {

using queue::Completion;
using queue::CompletionOpcode;
using queue::CompletionStatus;
using queue::SendOperation;

namespace {

CompletionOpcode opcode_of(SendOperation operation) {
  switch (operation) {
    case SendOperation::kSend:
    case SendOperation::kSendImm:
      return CompletionOpcode::kSend;
    case SendOperation::kWrite:
    case SendOperation::kWriteImm:
      return CompletionOpcode::kWrite;
    case SendOperation::kRead:
      break;
  }
  return CompletionOpcode::kRead;
}

void push(Connection& connection, Turn& turn, queue::CompletionQueue& queue, Completion& completion) {
  completion.local = connection.options.number;
  completion.remote = connection.attributes.destination;
  if (turn.completions.push(queue, completion)) return;
  turn.counters.add(Counter::kCqOverrun);
  connection.broken = true;
}

}  // namespace

void report_send(Connection& connection, Turn& turn, const queue::SendRequest& request,
                 CompletionStatus status) {
  const bool success = status == CompletionStatus::kSuccess;
  if (success && !request.signaled && !connection.options.signal_all) return;
  Completion completion;
  completion.wr_id = request.wr_id;
  completion.opcode = opcode_of(request.operation);
  completion.status = status;
  completion.bytes = success ? request.length : 0;
  push(connection, turn, *connection.options.send_completions, completion);
}

void fail_oldest_send(Connection& connection, Turn& turn, CompletionStatus status) {
  queue::SendQueue& queue = *connection.options.send_queue;
  report_send(connection, turn, queue.at(queue.retired()), status);
  queue.retire();
  connection.broken = true;
}

void report_receive(Connection& connection, Turn& turn, Completion completion) {
  queue::ReceiveQueue& queue = *connection.options.receive_queue;
  completion.wr_id = queue.at(queue.retired()).wr_id;
  push(connection, turn, *connection.options.receive_completions, completion);
  queue.retire();
}

}  // namespace uroce::qp
