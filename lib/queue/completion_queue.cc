#include "queue/completion_queue.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace uroce::queue {

/// Free-running counters. `pushed` is the poller's own; completions in [polled, visible) can be read.
struct CompletionQueue::Lane {
  Slots slots;
  uint32_t depth = 0;
  uint32_t mask = 0;
  alignas(64) uint32_t pushed = 0;
  uint32_t polled_cache = 0;
  bool solicited = false;  // since the last publish: a solicited or failed completion
  alignas(64) std::atomic<uint32_t> visible{0};
  alignas(64) std::atomic<uint32_t> polled{0};
};

CompletionQueue::CompletionQueue(const Options& options)
    : options_(options), lanes_(new Lane[options.lanes]) {
  for (uint16_t i = 0; i < options.lanes; ++i) {
    Slots slots = slots_for(options.depth);
    resize(i, options.depth, slots);
  }
}

namespace {

uint32_t slots_of(uint32_t depth) { return std::bit_ceil(std::max(depth, 1u)); }

}  // namespace

CompletionQueue::Slots CompletionQueue::slots_for(uint32_t depth) {
  return std::make_unique<Completion[]>(slots_of(depth));
}

uint32_t CompletionQueue::depth() const { return lanes_[0].depth; }

bool CompletionQueue::resize(uint16_t lane_index, uint32_t depth, Slots& slots) {
  Lane& lane = lanes_[lane_index];
  // Nobody polls; who did has handed on its stores by whatever keeps others away now.
  const uint32_t polled = lane.polled.load(std::memory_order_acquire);
  if (lane.pushed - polled > depth) return false;
  const uint32_t mask = slots_of(depth) - 1;
  for (uint32_t i = polled; i != lane.pushed; ++i) slots[i & mask] = lane.slots[i & lane.mask];
  lane.slots.swap(slots);
  lane.depth = depth;
  lane.mask = mask;
  lane.polled_cache = polled;
  return true;
}

CompletionQueue::~CompletionQueue() = default;

bool CompletionQueue::push(uint16_t lane_index, const Completion& completion) {
  Lane& lane = lanes_[lane_index];
  if (lane.pushed - lane.polled_cache >= lane.depth) {
    lane.polled_cache = lane.polled.load(std::memory_order_acquire);  // pairs with the release in poll
    if (lane.pushed - lane.polled_cache >= lane.depth) {
      overrun_.store(true, std::memory_order_relaxed);
      return false;
    }
  }
  lane.slots[lane.pushed++ & lane.mask] = completion;
  lane.solicited |= completion.solicited || completion.status != CompletionStatus::kSuccess;
  return true;
}

void CompletionQueue::publish(uint16_t lane_index) {
  Lane& lane = lanes_[lane_index];
  const bool solicited = std::exchange(lane.solicited, false);
  if (options_.listener == nullptr) {
    lane.visible.store(lane.pushed, std::memory_order_release);  // pairs with the acquire in poll
    return;
  }
  // Sequentially consistent with arm() and the poll() that follows it: either that poll sees these
  // completions, or this load sees the queue armed.
  lane.visible.store(lane.pushed, std::memory_order_seq_cst);
  uint8_t armed = armed_.load(std::memory_order_seq_cst);
  while (armed == kAny || (armed == kSolicited && solicited)) {
    if (armed_.compare_exchange_weak(armed, kIdle)) {
      options_.listener->completed(*this);
      return;
    }
  }
}

uint32_t CompletionQueue::pushed(uint16_t lane) const { return lanes_[lane].pushed; }

Completion& CompletionQueue::unpublished(uint16_t lane_index, uint32_t position) {
  Lane& lane = lanes_[lane_index];
  assert(position - lane.visible.load(std::memory_order_relaxed) < lane.depth);  // its own store
  lane.solicited = true;  // whatever is taken back has failed
  return lane.slots[position & lane.mask];
}

size_t CompletionQueue::poll(std::span<Completion> completions) {
  size_t count = 0;
  for (uint16_t tried = 0; tried < options_.lanes && count < completions.size(); ++tried) {
    Lane& lane = lanes_[next_lane_];
    uint32_t polled = lane.polled.load(std::memory_order_relaxed);
    const uint32_t visible = lane.visible.load(std::memory_order_seq_cst);  // see publish
    while (polled != visible && count < completions.size())
      completions[count++] = lane.slots[polled++ & lane.mask];
    lane.polled.store(polled, std::memory_order_release);  // pairs with the acquire in push
    // A lane that was not emptied goes first next time; otherwise the lanes take turns.
    if (polled != visible) break;
    next_lane_ = static_cast<uint16_t>(next_lane_ + 1 == options_.lanes ? 0 : next_lane_ + 1);
  }
  return count;
}

void CompletionQueue::remove(QpNumber local) {
  for (uint16_t i = 0; i < options_.lanes; ++i) {
    Lane& lane = lanes_[i];
    const uint32_t polled = lane.polled.load(std::memory_order_relaxed);
    const uint32_t visible = lane.visible.load(std::memory_order_acquire);  // pairs with the store in publish
    // What stays moves towards the newest; the slots in between are nobody else's.
    uint32_t to = visible;
    for (uint32_t from = visible; from != polled;) {
      const Completion& completion = lane.slots[--from & lane.mask];
      if (completion.local != local) lane.slots[--to & lane.mask] = completion;
    }
    lane.polled.store(to, std::memory_order_release);  // pairs with the acquire in push
  }
}

void CompletionQueue::arm(bool solicited_only) {
  // An armed-for-any queue is not weakened by a later solicited-only request (ibv_req_notify_cq(3)).
  if (!solicited_only) {
    armed_.store(kAny, std::memory_order_seq_cst);
    return;
  }
  uint8_t idle = kIdle;
  armed_.compare_exchange_strong(idle, kSolicited, std::memory_order_seq_cst);
}

void CompletionQueue::remind() {
  if (options_.listener == nullptr || armed_.load(std::memory_order_relaxed) != kAny || empty()) return;
  // A poller may be about to notify for the same arming: one of the two does.
  uint8_t any = kAny;
  if (armed_.compare_exchange_strong(any, kIdle)) options_.listener->completed(*this);
}

bool CompletionQueue::empty() const {
  for (uint16_t i = 0; i < options_.lanes; ++i) {
    const Lane& lane = lanes_[i];
    if (lane.visible.load(std::memory_order_acquire) != lane.polled.load(std::memory_order_acquire))
      return false;
  }
  return true;
}

bool CompletionBatch::push(CompletionQueue& queue, Completion completion) {
  completion.time = now_;
  if (std::find(queues_.begin(), queues_.begin() + static_cast<ptrdiff_t>(count_), &queue) ==
      queues_.begin() + static_cast<ptrdiff_t>(count_)) {
    queues_[count_++] = &queue;
  }
  return queue.push(lane_, completion);
}

void CompletionBatch::publish_all() {
  for (size_t i = 0; i < count_; ++i) queues_[i]->publish(lane_);
  count_ = 0;
}

}  // namespace uroce::queue
