#include "qp/operation_checks.h"

#include <bit>

namespace uroce::qp {

using queue::kAtomicBytes;
using wire::Family;

namespace {

/// The remote right that a request needs, of the queue pair and of the memory.
mem::Access needed_for(const wire::Packet& packet) {
  switch (packet.row->family) {
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

/// One packet, with the payload that its opcode has: only an ATOMIC WRITE has one.
bool has_right_payload(const wire::Packet& packet) {
  return packet.payload.size() == (packet.row->payload == wire::PayloadRule::kEightBytes ? kAtomicBytes : 0);
}

/// "Too many outstanding READ/ATOMIC: 0x61" (protocol.md 8). There are requesters, Linux's for one, that
/// round what they were told up to a power of two.
bool has_resource(const RequestContext& context, ResponseQueue& responses) {
  const uint32_t limit = context.connection.attributes.max_dest_rd_atomic;
  return limit != 0 && responses.make_room(std::bit_ceil(limit));
}

bool has_right_length(const RequestContext& context) {
  const wire::Headers& headers = context.packet.headers;
  switch (context.packet.row->family) {
    case Family::kReadRequest:
      return headers.reth.length <= kMessageBytesMax;
    case Family::kFlush:
      // One that asks for nothing is none.
      return needed_for(context.packet) != mem::Access();
    case Family::kAtomicWrite:
      return headers.reth.length == kAtomicBytes && headers.reth.address % kAtomicBytes == 0;
    case Family::kAtomic:
      // "Atomics: 8 bytes, 8-byte aligned, else NAK 0x61" (protocol.md 8).
      return headers.atomic.address % kAtomicBytes == 0;
    default:
      return false;  // no such operation
  }
}

/// The region may lie so that what is aligned for the peer is not for a CPU, or not in one piece.
Verdict check_word(const RequestContext& context, uint64_t address, MemoryKey rkey) {
  const mem::Binding binding = context.turn.regions.resolve(rkey, context.connection.key_user(), address,
                                                            kAtomicBytes, needed_for(context.packet));
  if (!binding.ok()) return Verdict::kRemoteAccess;
  context.memory.range.clear();
  context.memory.range.add(binding);
  return context.memory.range.word() != nullptr ? Verdict::kAccept : Verdict::kInvalidRequest;
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
                                               range.length, needed_for(context.packet));
  return binding.ok() ? Verdict::kAccept : Verdict::kRemoteAccess;
}

/// "Zero-length WRITE/READ: no key check" (C9-88, protocol.md 9).
Verdict check_read_memory(const RequestContext& context) {
  const wire::Reth& reth = context.packet.headers.reth;
  if (reth.length == 0) return Verdict::kAccept;
  return context.turn.regions
                 .resolve(reth.rkey, context.connection.key_user(), reth.address, reth.length,
                          mem::kRemoteRead)
                 .ok()
             ? Verdict::kAccept
             : Verdict::kRemoteAccess;
}

Verdict check_memory(const RequestContext& context) {
  const wire::Headers& headers = context.packet.headers;
  switch (context.packet.row->family) {
    case Family::kAtomic:
      return check_word(context, headers.atomic.address, headers.atomic.rkey);
    case Family::kAtomicWrite:
      return check_word(context, headers.reth.address, headers.reth.rkey);
    case Family::kFlush:
      return check_flushed_memory(context);
    default:
      return check_read_memory(context);
  }
}

}  // namespace

Verdict check_operation(const RequestContext& context, ResponseQueue& responses,
                        InboundMessage::Kind in_progress) {
  if (in_progress != InboundMessage::Kind::kNone || !has_right_payload(context.packet))
    return Verdict::kInvalidRequest;
  if (!context.connection.attributes.access.covers(needed_for(context.packet))) return Verdict::kRemoteAccess;
  if (!has_resource(context, responses) || !has_right_length(context)) return Verdict::kInvalidRequest;
  return check_memory(context);
}

}  // namespace uroce::qp
