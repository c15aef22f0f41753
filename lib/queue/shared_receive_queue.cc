#include "queue/shared_receive_queue.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace uroce::queue {

namespace {

constexpr size_t kLine = QueueMemory::kAlignment;

size_t ring_slots(uint32_t depth) { return std::bit_ceil(std::max(depth, 1u)); }

}  // namespace

SharedReceiveQueue::SharedReceiveQueue(const Options& options)
    : options_(options),
      stride_((sizeof(ReceiveRequest) + options.segments_max * sizeof(Segment) + kLine - 1) / kLine * kLine),
      memory_(options.depth * stride_, options.memory),
      posted_(ring_slots(options.depth)),
      free_(ring_slots(options.depth)) {
  for (uint32_t i = 0; i < options.depth; ++i) {
    new (memory_.get() + i * stride_) ReceiveRequest();
    free_.push(i);
  }
}

ReceiveRequest* SharedReceiveQueue::reserve() {
  uint32_t index = 0;
  if (!free_.pop(index)) return nullptr;
  return new (slot(index)) ReceiveRequest();
}

Segment* SharedReceiveQueue::segments(ReceiveRequest& request) const {
  return std::launder(reinterpret_cast<Segment*>(&request + 1));
}

void SharedReceiveQueue::publish(const ReceiveRequest& request) {
  [[maybe_unused]] const bool room = posted_.push(index_of(request));
  assert(room);  // there are no more slots than that
}

const ReceiveRequest& SharedReceiveQueue::take() {
  uint32_t index = 0;
  [[maybe_unused]] const bool any = posted_.pop(index);
  assert(any);
  const uint32_t limit = limit_.load(std::memory_order_relaxed);
  if (limit != 0 && posted_.size() < limit) [[unlikely]] {
    // Whoever sets a new one meanwhile hears of that, too, or of this one in its place.
    set_limit(0);
    if (options_.listener != nullptr) options_.listener->limit_reached(*this);
  }
  return *slot(index);
}

std::span<const Segment> SharedReceiveQueue::segments(const ReceiveRequest& request) const {
  return {std::launder(reinterpret_cast<const Segment*>(&request + 1)), request.segments};
}

void SharedReceiveQueue::give_back(const ReceiveRequest& request) { free_.push(index_of(request)); }

}  // namespace uroce::queue
