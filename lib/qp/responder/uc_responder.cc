#include "qp/responder/uc_responder.h"

#include "base/values/contract.h"
#include "qp/connection/completion_report.h"

namespace uroce::qp {

using Kind = InboundMessage::Kind;

namespace {

/// Why a message that fails a check is dropped.
Counter counter_of(RequestStatus status) {
  switch (status) {
    case RequestStatus::kNotReady:
      return Counter::kDropNoReceive;
    case RequestStatus::kTooLong:
      return Counter::kDropTooLong;
    case RequestStatus::kRemoteAccess:
    case RequestStatus::kRemoteInvalidate:
      return Counter::kDropRemoteAccess;
    case RequestStatus::kRemoteOperational:
      return Counter::kLocalProtectionError;
    case RequestStatus::kInvalidRequest:
    case RequestStatus::kNotPermitted:
    case RequestStatus::kAccept:
      break;
  }
  return Counter::kDropInvalidRequest;
}

}  // namespace

void UcResponder::reset(Psn expected) {
  expected_ = expected;
  message_ = {};
}

void UcResponder::receive(const wire::Packet& packet, Turn& turn) {
  UROCE_ASSERT(!packet.row->response && connection_.connected && !connection_.reliable);
  const Psn psn = packet.headers.bth.psn;
  const bool begins = begins_message(*packet.row);
  // Whatever is between two messages is a gap of its own: what is in progress has lost its end.
  if (psn != expected_ || begins) message_ = {};
  if (!begins && message_.kind == Kind::kNone) return turn.counters.add(Counter::kDropSequence);
  expected_ = psn + 1;

  const Kind kind = kind_of(packet.row->family);
  const MessagePart part = part_of(message_, kind, packet);
  const RequestContext context{connection_, packet, turn, cursor_};
  const CheckResult check = check_message(context, part, message_.kind);
  if (check.status != RequestStatus::kAccept) return drop(check.status, turn);
  perform(context, part, check, turn);
}

void UcResponder::drop(RequestStatus status, Turn& turn) {
  UROCE_ASSERT(status != RequestStatus::kAccept);
  turn.counters.add(counter_of(status));
  message_ = {};
  if (status != RequestStatus::kRemoteOperational) return;
  // Our own receive buffer is at fault: that is for its owner to hear.
  fail_receive(turn);
  connection_.broken = true;
  connection_.failure = Failure::kReceiveMemory;
}

void UcResponder::fail_receive(Turn& turn) {
  report_receive(connection_, turn,
                 {.opcode = queue::CompletionOpcode::kReceive,
                  .status = queue::CompletionStatus::kLocalProtectionError});
}

void UcResponder::perform(const RequestContext& context, const MessagePart& part, const CheckResult& check,
                          Turn& turn) {
  const wire::Packet& packet = context.packet;
  turn.placer.next_mark() = mark_of(connection_, part.kind, part.completes, packet, performed_, turn);
  if (!place_payload(context, part, check)) [[unlikely]] {
    turn.counters.add(Counter::kMemoryGone);
    return drop(part.kind == Kind::kSend ? RequestStatus::kRemoteOperational : RequestStatus::kRemoteAccess,
                turn);
  }
  turn.counters.add(Counter::kRequestsExecuted);
  if (part.kind == Kind::kSend) connection_.receives.take();
  if (!part.ends) return message_.go_on(part.kind, packet);
  ++performed_;
  received_.add(part.end());
  queue::Completion completion = completion_of(part.kind, packet, static_cast<uint32_t>(part.end()));
  add_immediate(packet, completion);
  message_ = {};
  if (packet.row->consumes_receive) report_receive(connection_, turn, completion);
}

/// The placer has left out the ends of later messages, too, so this cannot pass for a loss on the way: what
/// was said of them is taken back.
void UcResponder::lost(const copy::MessageMark& mark, Turn& turn) {
  UROCE_ASSERT(mark.kind != copy::MessageMark::Kind::kRead);
  turn.counters.add(Counter::kMemoryGone);
  if (mark.kind == copy::MessageMark::Kind::kSend) turn.counters.add(Counter::kLocalProtectionError);
  const bool unreported = mark.msn == performed_ && !connection_.broken;
  if (mark.kind == copy::MessageMark::Kind::kSend && unreported) {
    fail_receive(turn);
  } else {
    revise_receives(connection_, turn, mark);
  }
  message_ = {};
  connection_.broken = true;
  connection_.failure = Failure::kReceiveMemory;
}

}  // namespace uroce::qp
