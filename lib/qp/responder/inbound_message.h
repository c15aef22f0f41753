#pragma once

#include <cstdint>

#include "base/values/contract.h"
#include "copy/placer.h"
#include "qp/connection/connection.h"
#include "qp/connection/turn.h"
#include "queue/completion_queue.h"
#include "wire/packet.h"

namespace uroce::qp {

/// Whether a packet is First or Only.
constexpr bool begins_message(const wire::OpcodeRow& row) {
  return (static_cast<uint32_t>(row.position) & static_cast<uint32_t>(wire::Position::kFirst)) != 0;
}
/// Whether a packet is Last or Only.
constexpr bool ends_message(const wire::OpcodeRow& row) {
  return (static_cast<uint32_t>(row.position) & static_cast<uint32_t>(wire::Position::kLast)) != 0;
}

/// The message that is coming in, between its packets.
struct InboundMessage {
  enum class Kind : uint8_t { kNone, kSend, kWrite };
  // These mean something if `kind` is not kNone.
  wire::Reth target;  // WRITE: where it goes, and the length that was announced
  uint32_t received = 0;
  Kind kind = Kind::kNone;

  /// A packet of the kind that is not its last one was performed.
  void go_on(Kind its_kind, const wire::Packet& packet) {
    UROCE_ASSERT(its_kind != Kind::kNone && !ends_message(*packet.row));
    UROCE_ASSERT(begins_message(*packet.row) || kind == its_kind);
    const auto bytes = static_cast<uint32_t>(packet.payload.size());
    kind = its_kind;
    if (begins_message(*packet.row)) {
      received = bytes;
      target = packet.headers.reth;
    } else {
      received += bytes;
    }
  }
};

/// What a packet is of its message, found out once.
struct MessagePart {
  InboundMessage::Kind kind;
  bool begins;
  bool ends;
  uint32_t bytes;            // of payload
  uint32_t received;         // before it
  const wire::Reth& target;  // WRITE: of the whole message
  bool completes;            // a receive

  [[nodiscard]] uint64_t end() const { return uint64_t{received} + bytes; }
};

/// The packet's part of the message that it begins, or else continues. `kind` is the packet's.
[[gnu::always_inline]] inline MessagePart part_of(const InboundMessage& message, InboundMessage::Kind kind,
                                                  const wire::Packet& packet) {
  const bool begins = begins_message(*packet.row);
  return {.kind = kind,
          .begins = begins,
          .ends = ends_message(*packet.row),
          .bytes = static_cast<uint32_t>(packet.payload.size()),
          .received = begins ? 0 : message.received,
          .target = begins ? packet.headers.reth : message.target,
          .completes = packet.row->consumes_receive};
}
/// What a packet is that is all of a message of that kind, and has no more to say (OpcodeRow::whole).
[[gnu::always_inline]] inline MessagePart whole_of(InboundMessage::Kind kind, const wire::Packet& packet) {
  UROCE_ASSERT(packet.row->whole);
  return {.kind = kind,
          .begins = true,
          .ends = true,
          .bytes = static_cast<uint32_t>(packet.payload.size()),
          .received = 0,
          .target = packet.headers.reth,
          .completes = kind == InboundMessage::Kind::kSend};
}

/// Requests that take one of the responder's resources (ResponseQueue).
constexpr bool takes_responder_resource(wire::Family family) {
  return family == wire::Family::kReadRequest || family == wire::Family::kAtomic ||
         family == wire::Family::kAtomicWrite || family == wire::Family::kFlush;
}

/// The kind of the messages of that family; none for what is answered by itself.
constexpr InboundMessage::Kind kind_of(wire::Family family) {
  return family == wire::Family::kSend    ? InboundMessage::Kind::kSend
         : family == wire::Family::kWrite ? InboundMessage::Kind::kWrite
                                          : InboundMessage::Kind::kNone;
}

/// What the last packet of a message of `bytes` says in the completion of its receive work request, but for
/// what add_immediate() adds.
inline queue::Completion completion_of(InboundMessage::Kind kind, const wire::Packet& packet,
                                       uint32_t bytes) {
  return {.opcode = kind == InboundMessage::Kind::kWrite ? queue::CompletionOpcode::kReceiveWriteImm
                                                         : queue::CompletionOpcode::kReceive,
          .solicited = packet.headers.bth.solicited,
          .bytes = bytes};
}

/// Headers that say more than completion_of() does.
inline constexpr wire::HeaderSet kImmediateHeaders =
    wire::HeaderSet::of(wire::Header::kImmediate, wire::Header::kInvalidate);

/// Adds what the packet's kImmediateHeaders say, if it has one of them.
inline void add_immediate(const wire::Packet& packet, queue::Completion& completion) {
  if (packet.row->headers.has(wire::Header::kImmediate)) {
    completion.has_immediate = true;
    completion.immediate = packet.headers.immediate;
  } else if (packet.row->headers.has(wire::Header::kInvalidate)) {
    completion.has_invalidated = true;
    completion.immediate = packet.headers.invalidate.value;
  }
}

/// Mark of the message that `packet` ends. `completes`: a receive ends with it. `msn`: messages before it.
[[gnu::always_inline]] inline copy::MessageMark mark_of(const Connection& connection,
                                                        InboundMessage::Kind kind, bool completes,
                                                        const wire::Packet& packet, uint32_t msn,
                                                        const Turn& turn) {
  using MarkKind = copy::MessageMark::Kind;
  return {.owner = connection.placement_owner,
          .kind = kind == InboundMessage::Kind::kSend ? MarkKind::kSend : MarkKind::kWrite,
          .reported = completes,
          .completions = turn.completions.position(*connection.receive_completions),
          .psn = packet.headers.bth.psn,
          .msn = msn};
}

}  // namespace uroce::qp
