// Decision: all queue pairs of a shared receive queue belong to one poller, so that taking a receive needs no
// lock and no atomic operation. Cost: one queue does not scale over pollers.
//
// Decision: a queue is resized by another block of slots, or by setting slots aside. A queue pair refers to
// the request that it is receiving, so only the rings of pointers are replaced. Cost: one more indirection,
// and memory returns when the queue ends.
#include "queue/shared_receive_queue.h"

#include <algorithm>
#include <bit>

#include "base/values/contract.h"

namespace uroce::queue {

namespace {

constexpr size_t kLine = QueueMemory::kAlignment;

size_t ring_slots(uint32_t depth) { return std::bit_ceil(std::max(depth, 1u)); }

}  // namespace

SharedReceiveQueue::Rings::Rings(uint32_t depth) : posted(ring_slots(depth)), free(ring_slots(depth)) {}

SharedReceiveQueue::SharedReceiveQueue(const Options& options)
    : options_(options),
      stride_((sizeof(ReceiveRequest) + options.segments_max * sizeof(Segment) + kLine - 1) / kLine * kLine),
      rings_(std::make_unique<Rings>(0)),
      depth_(0) {
  resize(*prepare(options.depth));
}

std::unique_ptr<SharedReceiveQueue::Resizing> SharedReceiveQueue::prepare(uint32_t depth) {
  std::unique_ptr<Resizing> change(new Resizing(depth));
  const uint32_t more = depth > slots_ ? depth - slots_ : 0;
  change->spare.reserve(size_t{slots_} + more);
  if (more == 0) return change;
  std::byte* const memory = change->block.emplace_back(more * stride_, options_.memory).get();
  change->slots.reserve(more);
  for (uint32_t i = 0; i < more; ++i) change->slots.push_back(new (memory + i * stride_) ReceiveRequest());
  return change;
}

bool SharedReceiveQueue::resize(Resizing& change) {
  UROCE_ASSERT(rings_->free.size() <= depth());
  const uint32_t outstanding = depth() - static_cast<uint32_t>(rings_->free.size());
  if (outstanding > change.depth) return false;
  Rings& to = *change.rings;
  uint32_t room = change.depth - outstanding;
  const auto add = [&](ReceiveRequest* slot) {
    if (room == 0) return change.spare.push_back(slot);
    to.free.push(slot);
    --room;
  };
  ReceiveRequest* slot = nullptr;
  [[maybe_unused]] bool room_for_posted = true;
  while (rings_->posted.pop(slot)) room_for_posted = to.posted.push(slot) && room_for_posted;
  UROCE_ASSERT(room_for_posted);  // they are among the outstanding
  while (rings_->free.pop(slot)) add(slot);
  for (ReceiveRequest* unused : spare_) add(unused);
  for (ReceiveRequest* made : change.slots) add(made);
  UROCE_ASSERT(room == 0);
  slots_ += static_cast<uint32_t>(change.slots.size());
  blocks_.splice(blocks_.end(), change.block);
  spare_.swap(change.spare);
  rings_.swap(change.rings);
  depth_.store(change.depth, std::memory_order_relaxed);
  return true;
}

ReceiveRequest* SharedReceiveQueue::reserve() {
  ReceiveRequest* slot = nullptr;
  if (!rings_->free.pop(slot)) return nullptr;
  UROCE_ASSERT(slot != nullptr);
  return new (slot) ReceiveRequest();
}

Segment* SharedReceiveQueue::segments(ReceiveRequest& request) const {
  return std::launder(reinterpret_cast<Segment*>(&request + 1));
}

void SharedReceiveQueue::publish(ReceiveRequest& request) {
  UROCE_ASSERT(request.segments <= options_.segments_max);  // as segments() finds it
  [[maybe_unused]] const bool room = rings_->posted.push(&request);
  UROCE_ASSERT(room);  // there are no more slots than that
}

ReceiveRequest& SharedReceiveQueue::take() {
  ReceiveRequest* request = nullptr;
  [[maybe_unused]] const bool any = rings_->posted.pop(request);
  UROCE_ASSERT(any && request != nullptr);
  const uint32_t limit = limit_.load(std::memory_order_relaxed);
  if (limit != 0 && rings_->posted.size() < limit) [[unlikely]] {
    // A thread that sets a new one meanwhile hears of that, too, or of this one in its place.
    set_limit(0);
    if (options_.listener != nullptr) options_.listener->limit_reached(*this);
  }
  return *request;
}

void SharedReceiveQueue::give_back(ReceiveRequest& request) {
  [[maybe_unused]] const bool room = rings_->free.push(&request);
  UROCE_ASSERT(room);  // it was taken out of there
}

}  // namespace uroce::queue
