#pragma once

#include <cstdint>

#include "qp/inbound_message.h"
#include "qp/request_context.h"

// The checks of SENDs and WRITEs. In line, because every packet of a message passes them all.

namespace uroce::qp {

/// What the checks say of a packet of a message and, if they accept it, where its payload goes.
struct Judgement {
  Verdict verdict = Verdict::kAccept;
  mem::RegionEntry::Found piece;  // or, unless that is right, the context's range
};

/// "First -> Middle* -> Last, Only is alone; anything else is an invalid request on RC" (protocol.md 2).
inline bool is_in_order(const wire::OpcodeRow& row, InboundMessage::Kind kind,
                        InboundMessage::Kind in_progress) {
  return in_progress == (begins_message(row) ? InboundMessage::Kind::kNone : kind);
}

/// Payload of First and Middle packets: exactly the path MTU; Last: 1..MTU; Only: 0..MTU (protocol.md 2).
inline bool has_right_payload(const RequestContext& context) {
  const size_t bytes = context.packet.payload.size();
  const uint32_t mtu = context.connection.mtu;
  if (!ends_message(*context.packet.row)) return bytes == mtu;
  return bytes <= mtu && (bytes != 0 || begins_message(*context.packet.row));
}

/// It goes to our own receive buffer, which its first packet needs: trouble with that is not the peer's
/// fault, hence 0x63.
[[gnu::always_inline]] inline Judgement check_send(const RequestContext& context, const MessagePart& part) {
  const ReceiveRequests& receives = context.connection.receives;
  if (begins_message(*context.packet.row)) {
    if (!receives.available()) [[unlikely]]
      return {Verdict::kNotReady, {}};
    context.cursor.restart();
  }
  const size_t bytes = context.packet.payload.size();
  const queue::ReceiveRequest& receive = receives.current();
  if (uint64_t{part.received} + bytes > receive.length) [[unlikely]]
    return {Verdict::kTooLong, {}};
  const LocalKeys keys{context.turn.regions, context.connection.key_user(), mem::kLocalWrite};
  const std::span<const queue::Segment> segments = receives.segments(receive);
  const auto piece = find_at_once(segments, part.received, bytes, keys);
  if (piece.right) [[likely]]
    return {Verdict::kAccept, piece};
  const bool resolved = context.cursor.resolve(segments, part.received, bytes, keys, context.range);
  return {resolved ? Verdict::kAccept : Verdict::kRemoteOperational, {}};
}

/// "RETH.length must match the sum": nothing beyond it, something left before the last packet, all of it with
/// the last.
inline bool has_right_length(const RequestContext& context, const MessagePart& part) {
  if (part.target.length > kMessageBytesMax) return false;
  const uint64_t total = uint64_t{part.received} + context.packet.payload.size();
  return ends_message(*context.packet.row) ? total == part.target.length : total < part.target.length;
}

/// The first packet is checked for the whole message, each later one for its own bytes, so that an
/// invalidation in the middle stops the rest. "Zero-length WRITE/READ: no key check" (C9-88, protocol.md 9).
[[gnu::always_inline]] inline Judgement check_written_memory(const RequestContext& context,
                                                             const MessagePart& part) {
  const mem::RegionTable& regions = context.turn.regions;
  const mem::KeyUser& user = context.connection.key_user();
  const wire::Reth& target = part.target;
  const uint64_t address = target.address + part.received;
  const size_t bytes = context.packet.payload.size();
  if (context.packet.row->position == wire::Position::kFirst &&
      !regions.resolve(target.rkey, user, address, target.length, mem::kRemoteWrite).ok()) [[unlikely]]
    return {Verdict::kRemoteAccess, {}};
  const auto piece = regions.resolve_at_once(target.rkey, user.domain, address, bytes, mem::kRemoteWrite);
  if (piece.right) [[likely]]
    return {Verdict::kAccept, piece};
  context.range.clear();
  if (target.length == 0) return {};
  const bool resolved = context.range.become({regions, user, mem::kRemoteWrite}, target.rkey, address, bytes);
  return {resolved ? Verdict::kAccept : Verdict::kRemoteAccess, {}};
}

/// With immediate, its last packet needs a receive.
[[gnu::always_inline]] inline Judgement check_write(const RequestContext& context, const MessagePart& part) {
  const wire::OpcodeRow& row = *context.packet.row;
  // Without the right of the queue pair itself every WRITE is an access error.
  if (!context.connection.attributes.access.covers(mem::kRemoteWrite)) [[unlikely]]
    return {Verdict::kRemoteAccess, {}};
  if (row.consumes_receive && !context.connection.receives.available()) [[unlikely]]
    return {Verdict::kNotReady, {}};
  if (!has_right_length(context, part)) [[unlikely]]
    return {Verdict::kInvalidRequest, {}};
  return check_written_memory(context, part);
}

/// All checks of a packet of a SEND or WRITE, as `kind` says, whose PSN is the expected one, in the order in
/// which their answers take precedence. `part` is of the message that the packet begins or continues;
/// `in_progress` says what was under way before.
[[gnu::always_inline]] inline Judgement check_message(const RequestContext& context,
                                                      InboundMessage::Kind kind, const MessagePart& part,
                                                      InboundMessage::Kind in_progress) {
  if (!is_in_order(*context.packet.row, kind, in_progress) || !has_right_payload(context)) [[unlikely]]
    return {Verdict::kInvalidRequest, {}};
  return kind == InboundMessage::Kind::kSend ? check_send(context, part) : check_write(context, part);
}

/// Places the payload of an accepted packet. False: some of the memory is gone. The placer has the packet's
/// mark if it needs one.
[[gnu::always_inline]] inline bool place_payload(const RequestContext& context, const Judgement& judgement) {
  const std::span<const std::byte> payload = context.packet.payload;
  const bool last = ends_message(*context.packet.row);
  copy::Placer& placer = context.turn.placer;
  const mem::RegionEntry::Found& piece = judgement.piece;
  if (!piece.right) [[unlikely]]
    return context.range.place(placer, payload, last);
  return last ? placer.place_last(piece.data, payload.data(), payload.size(), piece.nature)
              : placer.place(piece.data, payload.data(), payload.size(), piece.nature);
}

}  // namespace uroce::qp
