// Requests that take one of the responder's resources and are answered by themselves.
#include <cstring>

#include "copy/guarded_atomic.h"
#include "qp/operation_checks.h"
#include "qp/queue_pair.h"
#include "qp/rc_responder.h"
#include "qp/xrc_target.h"

namespace uroce::qp {

using wire::Family;
using wire::Operation;

Response response_to(const wire::Packet& packet, uint32_t mtu) {
  const Psn psn = packet.headers.bth.psn;
  const queue::SrqNumber srq = receives_named_by(packet);
  if (packet.row->family == Family::kAtomic) {
    const wire::AtomicEth& atomic = packet.headers.atomic;
    return {.kind = Response::Kind::kAtomic, .original = {psn, 1, atomic.address, atomic.rkey, 0, srq}};
  }
  const wire::Reth& reth = packet.headers.reth;
  if (packet.row->family != Family::kReadRequest)
    return {.kind = Response::Kind::kDone, .original = {psn, 1, reth.address, reth.rkey, reth.length, srq}};
  return {.kind = Response::Kind::kRead,
          .original = {psn, response_packets(reth.length, mtu), reth.address, reth.rkey, reth.length, srq}};
}

/// Every check has passed, and there is room for the response.
void RcResponder::perform_operation(const wire::Packet& packet, Turn& turn) {
  Response response = response_to(packet, connection_.mtu);
  if (!execute(packet, response, turn)) return;
  turn.counters.add(Counter::kRequestsExecuted);
  response.msn = ++msn_;
  responses_.add(response);
  // The response acknowledges everything before it.
  if (answer_ == Answer::kAck) answer_ = Answer::kNone;
  arrived(response.original.packets, false);
}

/// Does what has to be done now; a READ is performed packet by packet when it is answered. False: nothing was
/// done, and the connection is broken.
bool RcResponder::execute(const wire::Packet& packet, Response& response, Turn& turn) {
  if (response.kind == Response::Kind::kRead) return true;
  // What came before is seen before, which is all that a FLUSH asks for; when it was lost this never came.
  commit_placements(turn);
  if (connection_.broken) [[unlikely]]
    return false;
  if (access_word(packet, response)) [[likely]] {
    if (response.kind == Response::Kind::kAtomic) turn.counters.add(Counter::kAtomicsExecuted);
    return true;
  }
  turn.counters.add(Counter::kMemoryGone);
  refuse(Verdict::kRemoteAccess, turn);
  return false;
}

/// False: the memory is gone.
bool RcResponder::access_word(const wire::Packet& packet, Response& response) const {
  const wire::AtomicEth& atomic = packet.headers.atomic;
  switch (packet.row->opcode.operation()) {
    case Operation::kCompareSwap:
      return copy::guarded_compare_swap(memory_.range.word(), atomic.compare, atomic.swap_or_add, response.value);
    case Operation::kFetchAdd:
      return copy::guarded_fetch_add(memory_.range.word(), atomic.swap_or_add, response.value);
    case Operation::kAtomicWrite: {
      // As it came: the bytes of a WRITE have no order of their own.
      uint64_t value = 0;
      std::memcpy(&value, packet.payload.data(), sizeof(value));
      return copy::guarded_store(memory_.range.word(), value);
    }
    default:
      return true;
  }
}

}  // namespace uroce::qp
