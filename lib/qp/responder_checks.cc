#include "qp/responder_checks.h"

#include <bit>

namespace uroce::qp {

using queue::kAtomicBytes;
using wire::Family;
using wire::Position;

namespace {

using Kind = InboundMessage::Kind;

/// "First -> Middle* -> Last, Only is alone; anything else is an invalid request on RC" (protocol.md 2), and
/// so is an operation that this responder does not have.
inline Verdict check_order(const RequestContext& context, Family family, Kind in_progress) {
  Kind kind = Kind::kNone;
  if (family == Family::kSend) {
    kind = Kind::kSend;
  } else if (family == Family::kWrite) {
    kind = Kind::kWrite;
  } else if (!is_answered_by_itself(family)) {
    return Verdict::kInvalidRequest;
  }
  const Kind needed = begins_message(*context.packet.row) ? Kind::kNone : kind;
  return in_progress == needed ? Verdict::kAccept : Verdict::kInvalidRequest;
}

/// Payload of First and Middle packets: exactly the path MTU; Last: 1..MTU; Only: 0..MTU (protocol.md 2).
inline Verdict check_payload(const RequestContext& context) {
  const size_t bytes = context.packet.payload.size();
  const uint32_t mtu = context.connection.mtu;
  switch (context.packet.row->payload) {
    case wire::PayloadRule::kNone:
      return bytes == 0 ? Verdict::kAccept : Verdict::kInvalidRequest;
    case wire::PayloadRule::kExactlyMtu:
      return bytes == mtu ? Verdict::kAccept : Verdict::kInvalidRequest;
    case wire::PayloadRule::kOneToMtu:
      return bytes >= 1 && bytes <= mtu ? Verdict::kAccept : Verdict::kInvalidRequest;
    case wire::PayloadRule::kZeroToMtu:
      return bytes <= mtu ? Verdict::kAccept : Verdict::kInvalidRequest;
    case wire::PayloadRule::kEightBytes:
      return bytes == 8 ? Verdict::kAccept : Verdict::kInvalidRequest;
  }
  return Verdict::kInvalidRequest;
}

/// The remote right that a request needs, of the queue pair and of the memory.
inline mem::Access needed_for(const wire::Packet& packet, Family family) {
  switch (family) {
    case Family::kWrite:
    case Family::kAtomicWrite:
      return mem::kRemoteWrite;
    case Family::kReadRequest:
      return mem::kRemoteRead;
    case Family::kAtomic:
      return mem::kRemoteAtomic;
    case Family::kFlush: {
      const wire::Feth& flush = packet.headers.feth;
      return (flush.global_visibility ? mem::kFlushGlobal : mem::Access()) |
             (flush.persistence ? mem::kFlushPersistent : mem::Access());
    }
    default:
      return {};
  }
}

/// Without that right of the queue pair itself every request of the kind is an access error.
inline Verdict check_queue_pair_access(const RequestContext& context, Family family) {
  const mem::Access granted = context.connection.attributes.access;
  return granted.covers(needed_for(context.packet, family)) ? Verdict::kAccept : Verdict::kRemoteAccess;
}

/// "Too many outstanding READ/ATOMIC: 0x61" (protocol.md 8). There are requesters, Linux's for one, that
/// round what they were told up to a power of two.
inline Verdict check_resources(const RequestContext& context, Family family) {
  if (!is_answered_by_itself(family)) return Verdict::kAccept;
  const uint32_t limit = context.connection.attributes.max_dest_rd_atomic;
  return limit != 0 && context.responses->make_room(std::bit_ceil(limit)) ? Verdict::kAccept
                                                                          : Verdict::kInvalidRequest;
}

/// A SEND takes a receive work request with its first packet, a WRITE with immediate with its last.
inline Verdict check_receive(const RequestContext& context, Family family) {
  const wire::OpcodeRow& row = *context.packet.row;
  const bool needed = family == Family::kSend
                          ? begins_message(row)
                          : row.headers.has(wire::Header::kImmediate) && ends_message(row);
  if (!needed) return Verdict::kAccept;
  return context.connection.receives.available() ? Verdict::kAccept : Verdict::kNotReady;
}

/// "RETH.length must match the sum": nothing beyond it, something left before the last packet, all of it with
/// the last.
inline Verdict check_length(const RequestContext& context, Family family) {
  if (family == Family::kReadRequest) {
    return context.packet.headers.reth.length <= kMessageBytesMax ? Verdict::kAccept
                                                                  : Verdict::kInvalidRequest;
  }
  if (family == Family::kFlush) {
    // One that asks for nothing is none.
    return needed_for(context.packet, family) != mem::Access() ? Verdict::kAccept : Verdict::kInvalidRequest;
  }
  if (family == Family::kAtomicWrite) {
    const wire::Reth& reth = context.packet.headers.reth;
    return reth.length == kAtomicBytes && reth.address % kAtomicBytes == 0 ? Verdict::kAccept
                                                                           : Verdict::kInvalidRequest;
  }
  // "Atomics: 8 bytes, 8-byte aligned, else NAK 0x61" (protocol.md 8).
  if (family == Family::kAtomic) {
    return context.packet.headers.atomic.address % kAtomicBytes == 0 ? Verdict::kAccept
                                                                     : Verdict::kInvalidRequest;
  }
  if (family == Family::kSend) {
    const uint64_t total = uint64_t{context.message.received} + context.packet.payload.size();
    return total <= context.connection.receives.current().length ? Verdict::kAccept : Verdict::kTooLong;
  }
  const InboundMessage& message = context.message;
  if (message.length > kMessageBytesMax) return Verdict::kInvalidRequest;
  const uint64_t total = uint64_t{message.received} + context.packet.payload.size();
  const bool right = ends_message(*context.packet.row) ? total == message.length : total < message.length;
  return right ? Verdict::kAccept : Verdict::kInvalidRequest;
}

/// The region may lie so that what is aligned for the peer is not for a CPU, or not in one piece.
Verdict check_word(RequestContext& context, uint64_t address, MemoryKey rkey, Family family) {
  const mem::Binding binding = context.turn.regions.resolve(rkey, context.connection.key_user(), address,
                                                            kAtomicBytes, needed_for(context.packet, family));
  if (!binding.ok()) return Verdict::kRemoteAccess;
  context.range.clear();
  context.range.add(binding);
  return context.range.word() != nullptr ? Verdict::kAccept : Verdict::kInvalidRequest;
}

/// Persistence asks for a right that only a region of persistent memory can have.
Verdict check_flushed_memory(const RequestContext& context) {
  const mem::RegionTable& regions = context.turn.regions;
  wire::Reth range = context.packet.headers.reth;
  if (context.packet.headers.feth.whole_region) {
    range.address = regions.read_entry(range.rkey).iova;
    range.length = 0;
  }
  const mem::Binding binding = regions.resolve(range.rkey, context.connection.key_user(), range.address,
                                               range.length, needed_for(context.packet, Family::kFlush));
  return binding.ok() ? Verdict::kAccept : Verdict::kRemoteAccess;
}

/// Remote keys. The first packet of a WRITE is checked for the whole message, each later one for its own
/// bytes, so that an invalidation in the middle stops the rest. "Zero-length WRITE/READ: no key check"
/// (C9-88, protocol.md 9).
inline Verdict check_remote_memory(RequestContext& context, Family family) {
  const mem::RegionTable& regions = context.turn.regions;
  const mem::KeyUser user = context.connection.key_user();
  if (family == Family::kAtomic) {
    const wire::AtomicEth& atomic = context.packet.headers.atomic;
    return check_word(context, atomic.address, atomic.rkey, family);
  }
  if (family == Family::kAtomicWrite) {
    const wire::Reth& reth = context.packet.headers.reth;
    return check_word(context, reth.address, reth.rkey, family);
  }
  if (family == Family::kFlush) return check_flushed_memory(context);
  if (family == Family::kReadRequest) {
    const wire::Reth& reth = context.packet.headers.reth;
    if (reth.length == 0) return Verdict::kAccept;
    return regions.resolve(reth.rkey, user, reth.address, reth.length, mem::kRemoteRead).ok()
               ? Verdict::kAccept
               : Verdict::kRemoteAccess;
  }
  const InboundMessage& message = context.message;
  context.range.clear();
  if (message.length == 0) return Verdict::kAccept;
  if (context.packet.row->position == Position::kFirst &&
      !regions.resolve(message.rkey, user, message.address, message.length, mem::kRemoteWrite).ok()) {
    return Verdict::kRemoteAccess;
  }
  return context.range.add(regions.resolve(message.rkey, user, message.address + message.received,
                                           context.packet.payload.size(), mem::kRemoteWrite))
             ? Verdict::kAccept
             : Verdict::kRemoteAccess;
}

/// Our own receive buffer: trouble with it is not the peer's fault, hence 0x63.
inline Verdict check_receive_memory(RequestContext& context) {
  const LocalKeys keys{context.turn.regions, context.connection.key_user(), mem::kLocalWrite};
  const bool resolved =
      context.message.cursor.resolve(context.connection.receives.segments(), context.message.received,
                                     context.packet.payload.size(), keys, context.range);
  return resolved ? Verdict::kAccept : Verdict::kRemoteOperational;
}

}  // namespace

namespace {

/// All checks of a request of `family`, in their order. In line, so that the checks of those families that
/// most requests are of know it.
[[gnu::always_inline]] inline Verdict check_all(RequestContext& context, Kind in_progress, Family family) {
  Verdict verdict = check_order(context, family, in_progress);
  if (verdict == Verdict::kAccept) verdict = check_payload(context);
  if (verdict == Verdict::kAccept) verdict = check_queue_pair_access(context, family);
  if (verdict == Verdict::kAccept) verdict = check_resources(context, family);
  if (verdict == Verdict::kAccept) verdict = check_receive(context, family);
  if (verdict == Verdict::kAccept) verdict = check_length(context, family);
  if (verdict != Verdict::kAccept) return verdict;
  return family == Family::kSend ? check_receive_memory(context) : check_remote_memory(context, family);
}

}  // namespace

Verdict check_request(RequestContext& context, Kind in_progress) {
  const Family family = context.packet.row->family;
  if (family == Family::kSend) return check_all(context, in_progress, Family::kSend);
  if (family == Family::kWrite) return check_all(context, in_progress, Family::kWrite);
  return check_all(context, in_progress, family);
}

}  // namespace uroce::qp
