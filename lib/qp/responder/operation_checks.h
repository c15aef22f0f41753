#pragma once

#include <cstdint>

#include "qp/responder/inbound_message.h"
#include "qp/responder/request_context.h"
#include "qp/responder/response_queue.h"

// The checks of requests that are answered by themselves. Those of a READ are in line; what they are is told
// by its family, which the caller knows.

namespace uroce::qp {

/// PSNs that a READ of `length` bytes takes.
constexpr uint32_t response_packets(uint32_t length, uint32_t mtu) {
  return length <= mtu ? 1u : static_cast<uint32_t>((uint64_t{length} + mtu - 1) / mtu);
}

/// The remote right that a request needs, of the queue pair and of the memory.
inline mem::Access needed_for(wire::Family family, const wire::Packet& packet) {
  switch (family) {
    case wire::Family::kAtomicWrite:
      return mem::kRemoteWrite;
    case wire::Family::kReadRequest:
      return mem::kRemoteRead;
    case wire::Family::kAtomic:
      return mem::kRemoteAtomic;
    case wire::Family::kFlush: {
      const wire::Feth& flush = packet.headers.feth;
      return (flush.global_visibility ? mem::kFlushGlobal : mem::Access()) |
             (flush.persistence ? mem::kFlushPersistent : mem::Access());
    }
    default:
      return {};
  }
}

/// The length is right. Of all but READs the word that they are about is resolved.
bool has_right_length(const RequestContext& context, wire::Family family);
RequestStatus check_memory(const RequestContext& context, wire::Family family);

/// "Zero-length WRITE/READ: no key check" (C9-88, lib/README.md, wire fact 9).
inline RequestStatus check_read_memory(const RequestContext& context) {
  const wire::Reth& reth = context.packet.headers.reth;
  const mem::RegionTable& regions = context.turn.regions;
  const mem::KeyUser& user = context.connection.key_user();
  const bool right =
      reth.length == 0 ||
      context.turn.keys.read.resolve_at_once(regions, reth.rkey, user.domain, reth.address, reth.length)
          .right ||
      regions.resolve(reth.rkey, user, reth.address, reth.length, mem::kRemoteRead).ok();
  return right ? RequestStatus::kAccept : RequestStatus::kRemoteAccess;
}

/// All checks of a request that is answered by itself and whose PSN is the expected one, in the order in
/// which their answers take precedence; the parser has seen to the payload, which an ATOMIC WRITE alone has.
/// An accepted one has room among `responses`; the word that it is about, if any, is resolved.
[[gnu::always_inline]] inline RequestStatus check_operation(const RequestContext& context,
                                                            wire::Family family, ResponseQueue& responses,
                                                            InboundMessage::Kind in_progress) {
  const bool read = family == wire::Family::kReadRequest;
  if (in_progress != InboundMessage::Kind::kNone) return RequestStatus::kInvalidRequest;
  if (!context.connection.attributes.access.covers(needed_for(family, context.packet)))
    return RequestStatus::kNotPermitted;
  // "Too many outstanding READ/ATOMIC: 0x61" (lib/README.md, wire fact 8).
  if (!responses.make_room(context.connection.resources)) return RequestStatus::kInvalidRequest;
  if (read ? context.packet.headers.reth.length > kMessageBytesMax : !has_right_length(context, family))
    return RequestStatus::kInvalidRequest;
  return read ? check_read_memory(context) : check_memory(context, family);
}

}  // namespace uroce::qp
