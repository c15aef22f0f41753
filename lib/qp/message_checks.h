#pragma once

#include <cstdint>

#include "qp/inbound_message.h"
#include "qp/request_context.h"

// The checks of SENDs and WRITEs. In line, because every packet of a message passes them all.

namespace uroce::qp {

/// "First -> Middle* -> Last, Only is alone; anything else is an invalid request on RC" (protocol.md 2).
inline bool is_in_order(const wire::OpcodeRow& row, InboundMessage::Kind in_progress) {
  return in_progress == (begins_message(row) ? InboundMessage::Kind::kNone : kind_of(row.family));
}

/// Payload of First and Middle packets: exactly the path MTU; Last: 1..MTU; Only: 0..MTU (protocol.md 2).
inline bool has_right_payload(const RequestContext& context) {
  const size_t bytes = context.packet.payload.size();
  const uint32_t mtu = context.connection.mtu;
  const wire::PayloadRule rule = context.packet.row->payload;
  if (rule == wire::PayloadRule::kZeroToMtu) return bytes <= mtu;
  return rule == wire::PayloadRule::kExactlyMtu ? bytes == mtu : bytes >= 1 && bytes <= mtu;
}

/// It goes to our own receive buffer, which its first packet needs: trouble with that is not the peer's
/// fault, hence 0x63.
inline Verdict check_send(const RequestContext& context, const InboundMessage& message) {
  const ReceiveRequests& receives = context.connection.receives;
  if (begins_message(*context.packet.row)) {
    if (!receives.available()) return Verdict::kNotReady;
    context.cursor.restart();
  }
  const size_t bytes = context.packet.payload.size();
  const queue::ReceiveRequest& receive = receives.current();
  if (uint64_t{message.received} + bytes > receive.length) return Verdict::kTooLong;
  const LocalKeys keys{context.turn.regions, context.connection.key_user(), mem::kLocalWrite};
  return context.cursor.resolve(receives.segments(receive), message.received, bytes, keys, context.range)
             ? Verdict::kAccept
             : Verdict::kRemoteOperational;
}

/// "RETH.length must match the sum": nothing beyond it, something left before the last packet, all of it with
/// the last.
inline bool has_right_length(const RequestContext& context, const InboundMessage& message) {
  if (message.length > kMessageBytesMax) return false;
  const uint64_t total = uint64_t{message.received} + context.packet.payload.size();
  return ends_message(*context.packet.row) ? total == message.length : total < message.length;
}

/// The first packet is checked for the whole message, each later one for its own bytes, so that an
/// invalidation in the middle stops the rest. "Zero-length WRITE/READ: no key check" (C9-88, protocol.md 9).
inline Verdict check_written_memory(const RequestContext& context, const InboundMessage& message) {
  context.range.clear();
  if (message.length == 0) return Verdict::kAccept;
  const mem::RegionTable& regions = context.turn.regions;
  const mem::KeyUser& user = context.connection.key_user();
  if (context.packet.row->position == wire::Position::kFirst &&
      !regions.resolve(message.rkey, user, message.address, message.length, mem::kRemoteWrite).ok())
    return Verdict::kRemoteAccess;
  return context.range.become({regions, user, mem::kRemoteWrite}, message.rkey,
                              message.address + message.received, context.packet.payload.size())
             ? Verdict::kAccept
             : Verdict::kRemoteAccess;
}

/// With immediate, its last packet needs a receive.
inline Verdict check_write(const RequestContext& context, const InboundMessage& message) {
  const wire::OpcodeRow& row = *context.packet.row;
  // Without the right of the queue pair itself every WRITE is an access error.
  if (!context.connection.attributes.access.covers(mem::kRemoteWrite)) return Verdict::kRemoteAccess;
  if (row.consumes_receive && !context.connection.receives.available()) return Verdict::kNotReady;
  return has_right_length(context, message) ? check_written_memory(context, message)
                                            : Verdict::kInvalidRequest;
}

/// All checks of a packet of a SEND or WRITE whose PSN is the expected one, in the order in which their
/// answers take precedence. `message` is what the packet begins or continues; `in_progress` says what was
/// under way before.
[[gnu::always_inline]] inline Verdict check_message(const RequestContext& context,
                                                    const InboundMessage& message,
                                                    InboundMessage::Kind in_progress) {
  if (!is_in_order(*context.packet.row, in_progress) || !has_right_payload(context))
    return Verdict::kInvalidRequest;
  return context.packet.row->family == wire::Family::kSend ? check_send(context, message)
                                                           : check_write(context, message);
}

}  // namespace uroce::qp
