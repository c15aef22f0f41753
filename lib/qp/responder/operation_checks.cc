// Decision: an operation that the access flags forbid is an invalid request (0x61), before key, length and
// receive are checked. rxe and hfi1 answer so. Cost: the receive of a WRITE with immediate is flushed.
#include "qp/responder/operation_checks.h"

namespace uroce::qp {

using queue::kAtomicBytes;
using wire::Family;

bool has_right_length(const RequestContext& context, Family family) {
  const wire::Headers& headers = context.packet.headers;
  switch (family) {
    case Family::kFlush:
      // One that asks for nothing is none.
      return needed_for(family, context.packet) != mem::Access();
    case Family::kAtomicWrite:
      return headers.reth.length == kAtomicBytes && headers.reth.address % kAtomicBytes == 0;
    case Family::kAtomic:
      // "Atomics: 8 bytes, 8-byte aligned, else NAK 0x61" (lib/README.md, wire fact 8).
      return headers.atomic.address % kAtomicBytes == 0;
    default:
      return false;  // no such operation
  }
}

namespace {

/// The region may lie so that what is aligned for the peer is not for a CPU, or not in one piece.
RequestStatus check_word(const RequestContext& context, uint64_t address, MemoryKey rkey,
                         mem::Access needed) {
  const mem::Binding binding =
      context.turn.regions.resolve(rkey, context.connection.key_user(), address, kAtomicBytes, needed);
  if (!binding.ok()) return RequestStatus::kRemoteAccess;
  context.turn.range.clear();
  context.turn.range.add(binding);
  return context.turn.range.word() != nullptr ? RequestStatus::kAccept : RequestStatus::kInvalidRequest;
}

/// Persistence asks for a right that only a region of persistent memory can have.
RequestStatus check_flushed_memory(const RequestContext& context, mem::Access needed) {
  const mem::RegionTable& regions = context.turn.regions;
  wire::Reth range = context.packet.headers.reth;
  if (context.packet.headers.feth.whole_region) {
    range.address = regions.read_entry(range.rkey).iova;
    range.length = 0;
  }
  const mem::Binding binding =
      regions.resolve(range.rkey, context.connection.key_user(), range.address, range.length, needed);
  return binding.ok() ? RequestStatus::kAccept : RequestStatus::kRemoteAccess;
}

}  // namespace

RequestStatus check_memory(const RequestContext& context, Family family) {
  const wire::Headers& headers = context.packet.headers;
  const mem::Access needed = needed_for(family, context.packet);
  switch (family) {
    case Family::kAtomic:
      return check_word(context, headers.atomic.address, headers.atomic.rkey, needed);
    case Family::kFlush:
      return check_flushed_memory(context, needed);
    default:
      return check_word(context, headers.reth.address, headers.reth.rkey, needed);
  }
}

}  // namespace uroce::qp
