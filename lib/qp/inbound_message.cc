#include "qp/inbound_message.h"

namespace uroce::qp {

using queue::Completion;
using queue::CompletionOpcode;
using wire::Family;

InboundMessage begin_message(const wire::Packet& packet) {
  InboundMessage message;
  if (packet.row->family == Family::kSend) message.kind = InboundMessage::Kind::kSend;
  if (packet.row->family == Family::kWrite) {
    const wire::Reth& reth = packet.headers.reth;
    message.kind = InboundMessage::Kind::kWrite;
    message.address = reth.address;
    message.rkey = reth.rkey;
    message.length = reth.length;
  }
  return message;
}

Completion completion_of(const wire::Packet& packet, uint32_t bytes) {
  Completion completion;
  completion.opcode =
      packet.row->family == Family::kWrite ? CompletionOpcode::kReceiveWriteImm : CompletionOpcode::kReceive;
  completion.bytes = bytes;
  completion.has_immediate = packet.row->headers.has(wire::Header::kImmediate);
  completion.has_invalidated = packet.row->headers.has(wire::Header::kInvalidate);
  completion.immediate = completion.has_immediate     ? packet.headers.immediate
                         : completion.has_invalidated ? packet.headers.invalidate.value
                                                      : 0;
  completion.solicited = packet.headers.bth.solicited;
  return completion;
}

copy::MessageMark mark_of(const Connection& connection, const InboundMessage& message,
                          const wire::Packet& packet, uint32_t msn, const Turn& turn) {
  using MarkKind = copy::MessageMark::Kind;
  return {.owner = connection.queue_pair,
          .kind = message.kind == InboundMessage::Kind::kSend ? MarkKind::kSend : MarkKind::kWrite,
          .reported = packet.row->consumes_receive,
          .completions = turn.completions.position(*connection.options.receive_completions),
          .psn = packet.headers.bth.psn,
          .msn = msn};
}

}  // namespace uroce::qp
