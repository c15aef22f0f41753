// Requests that take one of the responder's resources and are answered by themselves.
//
// Decision: atomics, ATOMIC WRITE and FLUSH execute on arrival, after what the burst placed is committed.
// Earlier data must be visible first, and a lost message must not be followed by an atomic.
#include <cstring>

#include "base/values/contract.h"
#include "copy/guarded_atomic.h"
#include "qp/connection/placements.h"
#include "qp/responder/operation_checks.h"
#include "qp/responder/rc_responder.h"
#include "qp/responder/xrc_target.h"

namespace uroce::qp {

using wire::Family;
using wire::Operation;

OperationRequest request_in(Family family, const wire::Packet& packet, uint32_t mtu) {
  using Kind = OperationRequest::Kind;
  const Psn psn = packet.headers.bth.psn;
  const queue::SrqNumber srq = receives_named_by(packet);
  if (family == Family::kAtomic) {
    const wire::AtomicEth& atomic = packet.headers.atomic;
    return {.address = atomic.address,
            .psn = psn,
            .packets = 1,
            .rkey = atomic.rkey,
            .srq = srq,
            .kind = Kind::kAtomic};
  }
  const wire::Reth& reth = packet.headers.reth;
  const bool read = family == Family::kReadRequest;
  return {.address = reth.address,
          .psn = psn,
          .packets = read ? response_packets(reth.length, mtu) : 1,
          .rkey = reth.rkey,
          .length = reth.length,
          .srq = srq,
          .kind = read ? Kind::kRead : Kind::kDone};
}

void RcResponder::receive_operation(const wire::Packet& packet, Turn& turn) {
  const Family family = packet.row->family;
  family == Family::kReadRequest ? receive_operation_of(Family::kReadRequest, packet, turn)
                                 : receive_operation_of(family, packet, turn);
}

/// A READ is performed packet by packet when it is answered, anything else now. In line, so that nothing is
/// left of what other families than a READ take.
[[gnu::always_inline]] inline void RcResponder::receive_operation_of(Family family,
                                                                     const wire::Packet& packet, Turn& turn) {
  // Linux' rxe does not count a FLUSH among what it has under way. One that finds every resource taken is
  // dropped, and the peer sends it again, where a READ or atomic is an invalid request.
  const uint32_t resources = send_.connection.resources;
  if (family == Family::kFlush && resources > 0 && responses_.pending() >= resources) [[unlikely]]
    return turn.counters.add(Counter::kDropResources);
  const RequestContext context{send_.connection, packet, turn, cursor_};
  const RequestStatus status = check_operation(context, family, responses_, message_.kind);
  if (status != RequestStatus::kAccept) [[unlikely]]
    return refuse_packet(status, packet, turn);
  UROCE_ASSERT(takes_responder_resource(family) && message_.kind == InboundMessage::Kind::kNone);
  uint64_t before = 0;
  if (family != Family::kReadRequest && !execute(packet, before, turn)) return;
  turn.counters.add(Counter::kRequestsExecuted);
  ++msn_;
  const OperationRequest request = request_in(family, packet, send_.connection.mtu);
  responses_.add(request, msn_, before);
  arrived_operation(request.packets);
}

/// `before`: what an atomic found. False: nothing was done, and the connection is broken.
bool RcResponder::execute(const wire::Packet& packet, uint64_t& before, Turn& turn) {
  // What came before is seen before, which is all that a FLUSH asks for; when it was lost this never came.
  commit_placements(turn);
  if (send_.connection.broken) [[unlikely]]
    return false;
  if (access_word(packet, turn.range, before)) [[likely]] {
    if (packet.row->family == Family::kAtomic) turn.counters.add(Counter::kAtomicsExecuted);
    return true;
  }
  turn.counters.add(Counter::kMemoryGone);
  refuse(RequestStatus::kRemoteAccess, turn);
  return false;
}

/// False: the memory is gone.
bool RcResponder::access_word(const wire::Packet& packet, const ResolvedRange& range, uint64_t& before) {
  const wire::AtomicEth& atomic = packet.headers.atomic;
  switch (packet.row->opcode.operation()) {
    case Operation::kCompareSwap:
      return copy::guarded_compare_swap(range.word(), atomic.compare, atomic.swap_or_add, before);
    case Operation::kFetchAdd:
      return copy::guarded_fetch_add(range.word(), atomic.swap_or_add, before);
    case Operation::kAtomicWrite: {
      // As it came: the bytes of a WRITE have no order of their own.
      uint64_t value = 0;
      UROCE_ASSERT(packet.payload.size() == sizeof(value));  // it was checked
      std::memcpy(&value, packet.payload.data(), sizeof(value));
      return copy::guarded_store(range.word(), value);
    }
    default:
      UROCE_ASSERT(packet.row->family == Family::kFlush);
      return true;
  }
}

}  // namespace uroce::qp
