#pragma once

#include "qp/connection/local_memory.h"
#include "qp/responder/inbound_message.h"
#include "qp/responder/message_checks.h"
#include "qp/responder/request_context.h"
#include "qp/responder/responder.h"

namespace uroce::qp {

/// Performs the messages of an unreliable connection. The peer is not told when one does not arrive: a gap in
/// the PSNs, and whatever is wrong with a packet, drops the rest of its message, and the next First or Only
/// packet begins anew (lib/README.md, wire fact 4). A receive work request whose message was dropped serves
/// the next one.
class UcResponder final : public Responder {
 public:
  explicit UcResponder(Connection& connection) : connection_(connection) {}

  void reset(Psn expected) override;
  void receive(const wire::Packet& packet, Turn& turn) override;
  void lost(const copy::MessageMark& mark, Turn& turn) override;

 private:
  void perform(const RequestContext& context, const MessagePart& part, const CheckResult& check, Turn& turn);
  void drop(RequestStatus status, Turn& turn);
  void fail_receive(Turn& turn);

  Connection& connection_;
  Psn expected_;
  InboundMessage message_;  // kNone also while the rest of a message is dropped
  SegmentCursor cursor_;    // of a SEND in its receive buffer
  uint32_t performed_ = 0;  // messages
};

}  // namespace uroce::qp
