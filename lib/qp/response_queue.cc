#include "qp/response_queue.h"

#include <algorithm>
#include <cassert>

namespace uroce::qp {

bool ResponseQueue::make_room(uint32_t limit) {
  limit = std::min(limit, max_);
  if (limit == 0) return false;
  while (count_ >= limit) {
    // A peer within its limit asks for something new only after the oldest was answered to the end.
    if (!at(0).answered) return false;
    drop_oldest();
  }
  return true;
}

void ResponseQueue::drop_oldest() {
  if (at(0).pending) --pending_;
  if (answered_ > 0) --answered_;
  ++first_;
  --count_;
}

void ResponseQueue::add(const Response& response) {
  assert(count_ < max_);
  Response& added = at(count_++) = response;
  added.due = response.original;
  added.pending = true;
  ++pending_;
}

bool ResponseQueue::repeat(Response::Kind kind, const ResponseRange& range, uint32_t mtu) {
  for (uint32_t i = 0; i < count_; ++i) {
    Response& response = at(i);
    const ResponseRange& original = response.original;
    const int32_t skipped = range.psn - original.psn;
    if (skipped < 0 || static_cast<uint32_t>(skipped) >= original.packets) continue;
    const uint64_t offset = uint64_t{static_cast<uint32_t>(skipped)} * mtu;
    const bool inside = kind == response.kind && range.rkey == original.rkey && range.srq == original.srq &&
                        range.address == original.address + offset &&
                        offset + range.length <= original.length;
    if (!inside) return false;
    response.due = range;
    response.sent = 0;
    if (!response.pending) ++pending_;
    response.pending = true;
    answered_ = std::min(answered_, i);
    return true;
  }
  return false;
}

void ResponseQueue::drop_from(Psn psn) {
  for (; count_ > 0 && !at(count_ - 1).original.psn.before(psn); --count_) {
    if (at(count_ - 1).pending) --pending_;
  }
  answered_ = std::min(answered_, count_);
}

Response* ResponseQueue::next() {
  if (pending_ == 0) return nullptr;
  while (!at(answered_).pending) ++answered_;
  return &at(answered_);
}

void ResponseQueue::sent_one(Response& response) {
  ++response.sent;
  if (response.due.psn + response.sent == response.original.end()) response.answered = true;
  if (response.sent < response.due.packets) return;
  response.pending = false;
  --pending_;
}

}  // namespace uroce::qp
