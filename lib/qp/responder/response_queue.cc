#include "qp/responder/response_queue.h"

#include <algorithm>

namespace uroce::qp {

bool ResponseQueue::repeat(const OperationRequest& request, uint32_t mtu) {
  for (uint32_t i = 0; i < count_; ++i) {
    Response& response = at(i);
    const OperationRequest& original = response.request;
    const int32_t skipped = request.psn - original.psn;
    if (skipped < 0 || static_cast<uint32_t>(skipped) >= original.packets) continue;
    const uint64_t offset = uint64_t{static_cast<uint32_t>(skipped)} * mtu;
    const bool inside = request.kind == original.kind && request.rkey == original.rkey &&
                        request.srq == original.srq && request.address == original.address + offset &&
                        offset + request.length <= original.length;
    if (!inside) return false;
    const uint32_t end = static_cast<uint32_t>(skipped) + request.packets;
    // What is being answered goes on to its end: the peer may ask for what it misses meanwhile.
    if (!response.pending() || end > response.end) {
      response.bytes_end = static_cast<uint32_t>(offset + request.length);
      if (!response.pending()) ++pending_;
      response.end = end;
    }
    response.first = response.next = static_cast<uint32_t>(skipped);
    answered_ = std::min(answered_, i);
    UROCE_ASSERT(is_sound() && response.end <= original.packets);
    return true;
  }
  return false;
}

void ResponseQueue::drop_from(Psn psn) {
  for (; count_ > 0 && !at(count_ - 1).request.psn.before(psn); --count_) {
    if (at(count_ - 1).pending()) --pending_;
  }
  answered_ = std::min(answered_, count_);
  UROCE_ASSERT(is_sound());
}

bool ResponseQueue::answers_behind(Psn psn) const {
  for (uint32_t i = count_; i-- > 0;) {
    if (at(i).pending()) return psn.before(at(i).request.psn);
  }
  return false;
}

bool ResponseQueue::permits_ack(Psn psn) const {
  for (uint32_t i = 0; i < count_; ++i) {
    const Response& response = at(i);
    const bool behind = !psn.before(response.request.psn + response.request.packets);
    if (!psn.before(response.request.psn) && !(behind && response.answered)) return false;
  }
  return true;
}

}  // namespace uroce::qp
