#pragma once

#include <cstdint>

#include "base/values/contract.h"
#include "qp/responder/inbound_message.h"
#include "qp/responder/request_context.h"

// The checks of SENDs and WRITEs. In line, because every packet of a message passes them all.

namespace uroce::qp {

/// What the checks say of a packet of a message and, if they accept it, where its payload goes: to one piece,
/// as most do, or to what the context's range holds.
struct CheckResult {
  RequestStatus status = RequestStatus::kAccept;
  std::byte* piece = nullptr;  // or none
  MemoryNature nature;
  const queue::ReceiveRequest* receive = nullptr;  // SEND, when it is known: what it completes

  static CheckResult accept(const mem::RegionEntry::Found& found,
                            const queue::ReceiveRequest* receive = nullptr) {
    return {.piece = found.data, .nature = found.nature, .receive = receive};
  }
};

/// "First -> Middle* -> Last, Only is alone; anything else is an invalid request on RC" (lib/README.md, wire
/// fact 2).
inline bool is_in_order(const MessagePart& part, InboundMessage::Kind in_progress) {
  return in_progress == (part.begins ? InboundMessage::Kind::kNone : part.kind);
}

/// Payload of First and Middle packets: exactly the path MTU; Last: 1..MTU; Only: 0..MTU (lib/README.md, wire
/// fact 2).
inline bool has_right_payload(const MessagePart& part, uint32_t mtu) {
  if (!part.ends) return part.bytes == mtu;
  return part.bytes - 1 < mtu || (part.bytes == 0 && part.begins);
}

/// Resolves where the payload of a SEND goes, when check_send() does not find it at once. (By value: what a
/// packet is need not be in memory for the sake of this.)
[[gnu::cold, gnu::noinline]] inline RequestStatus find_receive_buffer(RequestContext context,
                                                                      MessagePart part) {
  const ReceiveRequests& receives = context.connection.receives;
  const std::span<const queue::Segment> segments = receives.segments(receives.current());
  // Of one segment the cursor may not have seen the packets before.
  if (part.begins || segments.size() == 1) context.cursor.restart();
  const mem::KeyUser user = context.connection.receive_key_user();
  const LocalKeys keys{context.turn.regions, user, mem::kLocalWrite};
  return context.cursor.resolve(segments, part.received, part.bytes, keys, context.turn.range)
             ? RequestStatus::kAccept
             : RequestStatus::kRemoteOperational;
}

/// A SEND goes to our own receive buffer, which its first packet needs: trouble with that is not the peer's
/// fault, hence 0x63.
[[gnu::always_inline]] inline CheckResult check_send(const RequestContext& context, const MessagePart& part) {
  const ReceiveRequests& receives = context.connection.receives;
  const queue::ReceiveRequest* const receive = receives.front();
  if (receive == nullptr) [[unlikely]]
    return {RequestStatus::kNotReady};
  if (part.end() > receive->length) [[unlikely]]
    return {RequestStatus::kTooLong};
  // Most lists have one segment.
  if (receive->segments == 1) [[likely]] {
    const queue::Segment& only = *receives.segments(*receive).data();  // as long as the request
    const auto found = context.turn.keys.received_into.resolve_at_once(
        context.turn.regions, only.lkey, context.connection.receive_domain, only.address + part.received,
        part.bytes);
    if (found.right) [[likely]]
      return CheckResult::accept(found, receive);
  }
  return {find_receive_buffer(context, part)};
}

/// "RETH.length must match the sum": nothing beyond it, something left before the last packet, all of it with
/// the last.
inline bool has_right_length(const MessagePart& part) {
  if (part.ends) return part.end() == part.target.length;
  return part.end() < part.target.length && part.target.length <= kMessageBytesMax;
}

/// Resolves where the payload of a WRITE goes, when check_written_memory() does not find it at once.
/// "Zero-length WRITE/READ: no key check" (C9-88, lib/README.md, wire fact 9).
[[gnu::cold, gnu::noinline]] inline RequestStatus find_written_memory(RequestContext context,
                                                                      MessagePart part) {
  const wire::Reth& target = part.target;
  context.turn.range.clear();
  if (target.length == 0) return RequestStatus::kAccept;
  const LocalKeys keys{context.turn.regions, context.connection.key_user(), mem::kRemoteWrite};
  return context.turn.range.become(keys, target.rkey, target.address + part.received, part.bytes)
             ? RequestStatus::kAccept
             : RequestStatus::kRemoteAccess;
}

/// Whether the target of a first packet may be written, for the whole message.
[[gnu::noinline]] inline bool may_write_all(const RequestContext context, const wire::Reth& target) {
  return context.turn.regions
      .resolve(target.rkey, context.connection.key_user(), target.address, target.length, mem::kRemoteWrite)
      .ok();
}

/// The first packet is checked for the whole message, each later one for its own bytes, so that an
/// invalidation in the middle stops the rest.
[[gnu::always_inline]] inline CheckResult check_written_memory(const RequestContext& context,
                                                               const MessagePart& part) {
  const wire::Reth& target = part.target;
  if (part.begins && !part.ends && !may_write_all(context, target)) [[unlikely]]
    return {RequestStatus::kRemoteAccess};
  const auto found = context.turn.keys.written.resolve_at_once(context.turn.regions, target.rkey,
                                                               context.connection.key_user().domain,
                                                               target.address + part.received, part.bytes);
  if (found.right) [[likely]]
    return CheckResult::accept(found);
  return {find_written_memory(context, part)};
}

/// Checks a WRITE. With immediate, its last packet needs a receive.
[[gnu::always_inline]] inline CheckResult check_write(const RequestContext& context,
                                                      const MessagePart& part) {
  if (!context.connection.attributes.access.covers(mem::kRemoteWrite)) [[unlikely]]
    return {RequestStatus::kNotPermitted};
  if (part.completes && !context.connection.receives.available()) [[unlikely]]
    return {RequestStatus::kNotReady};
  if (!has_right_length(part)) [[unlikely]]
    return {RequestStatus::kInvalidRequest};
  return check_written_memory(context, part);
}

/// All checks of a packet of a SEND or WRITE whose PSN is the expected one, in the order in which their
/// answers take precedence. `in_progress` says what was under way before.
[[gnu::always_inline]] inline CheckResult check_message(const RequestContext& context,
                                                        const MessagePart& part,
                                                        InboundMessage::Kind in_progress) {
  if (!is_in_order(part, in_progress) || !has_right_payload(part, context.connection.mtu)) [[unlikely]]
    return {RequestStatus::kInvalidRequest};
  return part.kind == InboundMessage::Kind::kSend ? check_send(context, part) : check_write(context, part);
}

/// Places the payload of an accepted packet. False: some of the memory is gone. The placer has the packet's
/// mark if it needs one.
[[gnu::always_inline]] inline bool place_payload(const RequestContext& context, const MessagePart& part,
                                                 const CheckResult& check) {
  UROCE_ASSERT(check.status == RequestStatus::kAccept);
  copy::Placer& placer = context.turn.placer;
  if (check.piece == nullptr) [[unlikely]]
    return context.turn.range.place(placer, context.packet.payload, part.ends);
  const std::byte* const from = context.packet.payload.data();
  return part.ends ? placer.place_last(check.piece, from, part.bytes, check.nature)
                   : placer.place(check.piece, from, part.bytes, check.nature);
}

}  // namespace uroce::qp
