#include "qp/response_queue.h"

#include <algorithm>
#include <cassert>

namespace uroce::qp {

bool ResponseQueue::make_room(uint32_t limit) {
  limit = std::min(limit, static_cast<uint32_t>(reads_.size()));
  if (limit == 0) return false;
  while (count_ >= limit) {
    // A peer within its limit asks for a new READ only after the oldest was answered to the end.
    if (!at(0).answered) return false;
    if (at(0).pending) --pending_;
    first_ = (first_ + 1) % static_cast<uint32_t>(reads_.size());
    --count_;
  }
  return true;
}

void ResponseQueue::add(const ReadRange& range, uint32_t msn) {
  assert(count_ < reads_.size());
  at(count_++) = {.original = range, .msn = msn, .due = range, .pending = true};
  ++pending_;
}

bool ResponseQueue::repeat(const ReadRange& range, uint32_t mtu) {
  for (uint32_t i = 0; i < count_; ++i) {
    ReadResponse& read = at(i);
    const int32_t skipped = range.psn - read.original.psn;
    if (skipped < 0 || static_cast<uint32_t>(skipped) >= read.original.packets) continue;
    const uint64_t offset = uint64_t{static_cast<uint32_t>(skipped)} * mtu;
    const bool inside = range.rkey == read.original.rkey && range.address == read.original.address + offset &&
                        offset + range.length <= read.original.length;
    if (!inside) return false;
    read.due = range;
    read.sent = 0;
    if (!read.pending) ++pending_;
    read.pending = true;
    return true;
  }
  return false;
}

void ResponseQueue::drop_from(Psn psn) {
  for (; count_ > 0 && !at(count_ - 1).original.psn.before(psn); --count_) {
    if (at(count_ - 1).pending) --pending_;
  }
}

ReadResponse* ResponseQueue::next() {
  if (pending_ == 0) return nullptr;
  for (uint32_t i = 0; i < count_; ++i) {
    if (at(i).pending) return &at(i);
  }
  return nullptr;
}

void ResponseQueue::sent_one(ReadResponse& read) {
  ++read.sent;
  if (read.due.psn + read.sent == read.original.end()) read.answered = true;
  if (read.sent < read.due.packets) return;
  read.pending = false;
  --pending_;
}

}  // namespace uroce::qp
