#pragma once

#include <cstdint>

#include "copy/placer.h"
#include "qp/connection.h"
#include "qp/turn.h"
#include "queue/completion_queue.h"
#include "wire/packet.h"

namespace uroce::qp {

/// The message that is coming in, between its packets.
struct InboundMessage {
  enum class Kind : uint8_t { kNone, kSend, kWrite };
  Kind kind = Kind::kNone;
  uint64_t address = 0;  // WRITE: of the first byte, with its key and the length that was announced
  MemoryKey rkey;
  uint32_t length = 0;
  uint32_t received = 0;
};

/// First or Only, and Last or Only.
constexpr bool begins_message(const wire::OpcodeRow& row) {
  return row.position == wire::Position::kFirst || row.position == wire::Position::kOnly;
}
constexpr bool ends_message(const wire::OpcodeRow& row) {
  return row.position == wire::Position::kLast || row.position == wire::Position::kOnly;
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

/// The message that `packet`, its first or only one, begins.
inline InboundMessage begin_message(const wire::Packet& packet) {
  const InboundMessage::Kind kind = kind_of(packet.row->family);
  if (kind != InboundMessage::Kind::kWrite) return {.kind = kind};
  const wire::Reth& reth = packet.headers.reth;
  return {.kind = kind, .address = reth.address, .rkey = reth.rkey, .length = reth.length};
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
inline copy::MessageMark mark_of(const Connection& connection, const InboundMessage& message,
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
