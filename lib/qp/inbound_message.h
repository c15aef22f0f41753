#pragma once

#include <cstdint>

#include "copy/placer.h"
#include "qp/connection.h"
#include "qp/local_memory.h"
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
  SegmentCursor cursor;  // SEND: in the receive buffer
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

/// The message that `packet`, its first or only one, begins.
InboundMessage begin_message(const wire::Packet& packet);

/// What the last packet of a message of `bytes` says to whoever posted its receive work request.
queue::Completion completion_of(const wire::Packet& packet, uint32_t bytes);

/// Mark of the message that `packet` ends; `msn` is that before it.
copy::MessageMark mark_of(const Connection& connection, const InboundMessage& message,
                          const wire::Packet& packet, uint32_t msn, const Turn& turn);

}  // namespace uroce::qp
