#pragma once

#include <cstdint>

#include "copy/placer.h"
#include "qp/connection.h"
#include "qp/turn.h"
#include "queue/completion_queue.h"
#include "wire/packet.h"

namespace uroce::qp {

/// First or Only, and Last or Only.
constexpr bool begins_message(const wire::OpcodeRow& row) {
  return (static_cast<uint32_t>(row.position) & static_cast<uint32_t>(wire::Position::kFirst)) != 0;
}
constexpr bool ends_message(const wire::OpcodeRow& row) {
  return (static_cast<uint32_t>(row.position) & static_cast<uint32_t>(wire::Position::kLast)) != 0;
}

/// The message that is coming in, between its packets.
struct InboundMessage {
  enum class Kind : uint8_t { kNone, kSend, kWrite };
  Kind kind = Kind::kNone;  // what follows means something if it is not kNone
  uint32_t received = 0;
  wire::Reth target;  // WRITE: where it goes, and the length that was announced

  /// A packet of the kind, which is not its last one, has come.
  void go_on(Kind its_kind, const wire::Packet& packet, uint32_t bytes_so_far) {
    kind = its_kind;
    received = bytes_so_far;
    if (begins_message(*packet.row)) target = packet.headers.reth;
  }
};

/// What is known of a message when one of its packets comes.
struct MessagePart {
  const wire::Reth& target;  // WRITE: of the whole message
  uint32_t received;         // before the packet
};

/// Of the message that `packet` begins, or else continues.
inline MessagePart part_of(const InboundMessage& message, const wire::Packet& packet) {
  if (begins_message(*packet.row)) return {packet.headers.reth, 0};
  return {message.target, message.received};
}

/// Requests that take one of the responder's resources (ResponseQueue).
constexpr bool is_answered_by_itself(wire::Family family) {
  return family == wire::Family::kReadRequest || family == wire::Family::kAtomic ||
         family == wire::Family::kAtomicWrite || family == wire::Family::kFlush;
}

/// Of the messages of that family; none of what is answered by itself.
constexpr InboundMessage::Kind kind_of(wire::Family family) {
  return family == wire::Family::kSend    ? InboundMessage::Kind::kSend
         : family == wire::Family::kWrite ? InboundMessage::Kind::kWrite
                                          : InboundMessage::Kind::kNone;
}

/// What the last packet of a message of `bytes` says to whoever posted its receive work request.
inline queue::Completion completion_of(const wire::Packet& packet, uint32_t bytes) {
  queue::Completion completion;
  completion.opcode = packet.row->family == wire::Family::kWrite ? queue::CompletionOpcode::kReceiveWriteImm
                                                                 : queue::CompletionOpcode::kReceive;
  completion.bytes = bytes;
  completion.has_immediate = packet.row->headers.has(wire::Header::kImmediate);
  completion.has_invalidated = packet.row->headers.has(wire::Header::kInvalidate);
  completion.immediate = completion.has_immediate     ? packet.headers.immediate
                         : completion.has_invalidated ? packet.headers.invalidate.value
                                                      : 0;
  completion.solicited = packet.headers.bth.solicited;
  return completion;
}

/// Mark of the message that `packet` ends; `msn` is that before it.
inline copy::MessageMark mark_of(const Connection& connection, InboundMessage::Kind kind,
                                 const wire::Packet& packet, uint32_t msn, const Turn& turn) {
  using MarkKind = copy::MessageMark::Kind;
  return {.owner = connection.queue_pair,
          .kind = kind == InboundMessage::Kind::kSend ? MarkKind::kSend : MarkKind::kWrite,
          .reported = packet.row->consumes_receive,
          .completions = turn.completions.position(*connection.options.receive_completions),
          .psn = packet.headers.bth.psn,
          .msn = msn};
}

}  // namespace uroce::qp
