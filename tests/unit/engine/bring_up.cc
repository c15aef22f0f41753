#include "bring_up.h"

namespace uroce::engine {

namespace {

using namespace qp;

/// The attributes that a step to `to` takes.
AttributeMask mask_for(Type type, State to) {
  const bool connected = type != Type::kUd;
  const bool initiates = type == Type::kRc || type == Type::kXrcSend;
  const bool answers = type == Type::kRc || type == Type::kXrcReceive;
  AttributeMask mask = kMaskState;
  if (to == State::kInit)
    return mask | kMaskPkeyIndex | kMaskPort | (connected ? kMaskAccessFlags : kMaskQkey);
  if (to == State::kRtr) {
    if (connected) mask = mask | kMaskAv | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn;
    return answers ? mask | kMaskMaxDestRdAtomic | kMaskMinRnrTimer : mask;
  }
  mask = mask | kMaskSqPsn;
  if (initiates || answers) mask = mask | kMaskTimeout;
  return initiates ? mask | kMaskRetryCount | kMaskRnrRetry | kMaskMaxRdAtomic : mask;
}

}  // namespace

int bring_up(Device& device, QpSlot& queue_pair, Type type, const FarPeer& peer, State to) {
  Attributes a;
  a.access = mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead | mem::kRemoteAtomic;
  a.qkey = peer.qkey;
  a.path.source = device.gids().at(1);
  a.path.destination = peer.address;
  a.path_mtu = PathMtu::k1024;
  a.destination = peer.number;
  a.rq_psn = a.sq_psn = peer.first_psn;
  a.max_rd_atomic = a.max_dest_rd_atomic = 4;
  a.min_rnr_timer = 1;
  a.timeout = 14;
  a.retry_count = a.rnr_retry = 7;
  for (const State state : {State::kInit, State::kRtr, State::kRts}) {
    if (state > to) break;
    a.state = state;
    if (const int error = device.modify_queue_pair(queue_pair, a, mask_for(type, state)); error != 0)
      return error;
  }
  return 0;
}

}  // namespace uroce::engine
