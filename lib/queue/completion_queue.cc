// Decision: a queue is resized lane by lane, each by its own poller, while the caller holds off polling
// threads. Pollers push without a lock.
//
// Decision: moderation needs a count and a time, so that no completion waits for ever.
//
// Decision: a poll delivers all that it may of a lane before it gives the slots back. Completions are
// translated in their slots, without a copy between.
//
// Decision: a queue pair that has migrated has a lane that follows its last one: what is pushed waits until
// that was polled up to there. A lane follows one other at a time, and no two wait for each other. Cost: one
// more load for each lane of a poll.
//
// Decision: RESET takes the queue pair's completions out of its queues, as mlx5 does and rdma-core's tests
// expect.
#include "queue/completion_queue.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/values/contract.h"

namespace uroce::queue {

CompletionQueue::CompletionQueue(const Options& options)
    : options_(options), lanes_(new Lane[options.lanes]) {
  UROCE_ASSERT(options.lanes > 0 && options.lanes <= 64);
  for (uint16_t i = 0; i < options.lanes; ++i) {
    Slots slots = slots_for(options.depth);
    resize(i, options.depth, slots);
  }
}

namespace {

uint32_t slots_of(uint32_t depth) { return std::bit_ceil(std::max(depth, 1u)); }

}  // namespace

CompletionQueue::Slots::Slots(uint32_t count, std::pmr::memory_resource* from)
    : memory_(count * sizeof(Completion), from), first_(new(memory_.get()) Completion()) {
  for (uint32_t i = 1; i < count; ++i) new (first_ + i) Completion();
}

CompletionQueue::Slots CompletionQueue::slots_for(uint32_t depth) const {
  return {slots_of(depth), options_.memory};
}

uint32_t CompletionQueue::depth() const { return lanes_[0].depth; }

bool CompletionQueue::resize(uint16_t lane_index, uint32_t depth, Slots& slots) {
  UROCE_ASSERT(lane_index < options_.lanes);
  Lane& lane = lanes_[lane_index];
  // No thread polls; the one that did has handed on its stores by whatever keeps others away now.
  const uint32_t polled = lane.polled.load(std::memory_order_acquire);
  if (lane.pushed - polled > depth) return false;
  const uint32_t mask = slots_of(depth) - 1;
  for (uint32_t i = polled; i != lane.pushed; ++i) slots[i & mask] = lane.slots[i & lane.mask];
  std::swap(lane.slots, slots);
  lane.depth = depth;
  lane.mask = mask;
  lane.polled_cache = polled;
  return true;
}

CompletionQueue::~CompletionQueue() = default;

bool CompletionQueue::look_for_room(Lane& lane) {
  lane.polled_cache = lane.polled.load(std::memory_order_acquire);  // pairs with the release in poll
  UROCE_ASSERT(lane.pushed - lane.polled_cache <= lane.depth);      // none was polled that was not pushed
  if (lane.pushed - lane.polled_cache < lane.depth) return true;
  order_overrun();
  return false;
}

void CompletionQueue::order_overrun() {
  // Relaxed: nothing is handed on with it. Of several pollers the first one notifies.
  if (!overrun_.exchange(true, std::memory_order_relaxed) && options_.overrun_listener != nullptr)
    options_.overrun_listener->overran(*this);
}

bool CompletionQueue::publish(uint16_t lane_index, Instant now) {
  UROCE_ASSERT(lane_index < options_.lanes);
  Lane& lane = lanes_[lane_index];
  // Its own stores: what becomes visible fits the slots, which poll() relies on.
  UROCE_ASSERT(lane.pushed - lane.visible.load(std::memory_order_relaxed) <= lane.depth);
  const uint32_t solicited = std::exchange(lane.solicited, 0);
  if (options_.listener == nullptr) {
    lane.visible.store(lane.pushed, std::memory_order_release);  // pairs with the acquire in poll
    return false;
  }
  const uint32_t all = lane.pushed - lane.visible.load(std::memory_order_relaxed);  // its own store
  // Sequentially consistent with arm() and the poll() that follows it: either that poll sees these
  // completions, or this load sees the queue armed.
  lane.visible.store(lane.pushed, std::memory_order_seq_cst);
  uint32_t armed = armed_.load(std::memory_order_seq_cst);
  while (true) {
    const uint32_t mode = armed & kArmedMask;
    if (mode == kIdle || (mode == kSolicited && solicited == 0)) return false;
    if (moderation_.load(std::memory_order_relaxed) != 0 &&
        hold(lane, armed, mode == kAny ? all : solicited, now)) {
      return true;
    }
    if (notify(armed)) return false;
    armed = armed_.load(std::memory_order_seq_cst);
  }
}

/// Ends that arming, if no thread has yet.
bool CompletionQueue::notify(uint32_t armed) {
  if (!armed_.compare_exchange_strong(armed, (armed & ~uint32_t{kArmedMask}) + kNotified)) return false;
  held_.store(0, std::memory_order_relaxed);
  options_.listener->completed(*this);
  return true;
}

// Several pollers hold back for one queue. The count is theirs together and may be a few off, because a
// poller that notifies clears it while others add. That is why it never decides alone: each poller that held
// something back notifies when its own time has come, unless the arming that it saw has ended. The poller
// that ended it did so after these completions were visible, so a program that heard of it finds them.

/// Armed for all instead of for solicited ones meanwhile, it is the same one: those count for both.
bool CompletionQueue::same_arming(uint32_t before, uint32_t now) {
  return (now & kArmedMask) != kIdle && (now | kArmedMask) == (before | kArmedMask);
}

bool CompletionQueue::hold(Lane& lane, uint32_t armed, uint32_t completions, Instant now) {
  const uint32_t moderation = moderation_.load(std::memory_order_relaxed);
  const uint32_t count = moderation & 0xFFFFu;
  if (held_.fetch_add(completions, std::memory_order_relaxed) + completions >= count) return false;
  if (lane.held && same_arming(lane.held_armed, armed)) return true;
  lane.held_armed = armed;
  lane.held_until = now + microseconds(moderation >> 16);
  return true;
}

Instant CompletionQueue::held_until(uint16_t lane) const {
  UROCE_ASSERT(lane < options_.lanes);
  return lanes_[lane].held_until;
}

void CompletionQueue::notify_held(uint16_t lane_index) {
  UROCE_ASSERT(lane_index < options_.lanes);
  Lane& lane = lanes_[lane_index];
  UROCE_ASSERT(!lane.held);  // the batch has taken it out of its list
  uint32_t armed = armed_.load(std::memory_order_seq_cst);
  while (same_arming(lane.held_armed, armed) && !notify(armed))
    armed = armed_.load(std::memory_order_seq_cst);
}

void CompletionQueue::moderate(const Moderation& moderation) {
  const auto period = static_cast<uint32_t>(moderation.period.ns / microseconds(1).ns);
  const bool moderated = moderation.count > 1 && period != 0;
  UROCE_ASSERT(period <= 0xFFFF);
  // Relaxed: pollers take it up some time soon.
  if (moderated) ever_moderated_.store(true, std::memory_order_relaxed);
  moderation_.store(moderated ? period << 16 | moderation.count : 0, std::memory_order_relaxed);
}

Completion& CompletionQueue::unpublished(uint16_t lane_index, uint32_t position) {
  Lane& lane = lanes_[lane_index];
  [[maybe_unused]] const uint32_t visible = lane.visible.load(std::memory_order_relaxed);  // its own store
  UROCE_ASSERT(position - visible < lane.pushed - visible);
  ++lane.solicited;  // whatever is taken back has failed
  return lane.slots[position & lane.mask];
}

void CompletionQueue::follow(uint16_t lane_index, uint16_t other, uint32_t position) {
  UROCE_ASSERT(lane_index < options_.lanes && other < options_.lanes && other != lane_index);
  UROCE_ASSERT(may_follow(lane_index));
  Lane& lane = lanes_[lane_index];
  lane.follows_from = lane.pushed;
  lane.follows_until = position;
  lane.follows.store(other, std::memory_order_release);  // pairs with pass()
}

// There is always a completion that waits for none: a poller pushes what follows after it has published what
// is to be followed, so that no two lanes wait for each other.
uint32_t CompletionQueue::pass(Lane& lane, uint32_t visible) {
  const uint16_t other = lane.follows.load(std::memory_order_acquire);           // pairs with follow()
  const uint32_t polled = lanes_[other].polled.load(std::memory_order_relaxed);  // the caller's own
  if (static_cast<int32_t>(polled - lane.follows_until) >= 0) {
    lane.follows.store(kNoLane, std::memory_order_release);  // pairs with may_follow()
    return visible;
  }
  return static_cast<int32_t>(visible - lane.follows_from) > 0 ? lane.follows_from : visible;
}

void CompletionQueue::remove(QpNumber local) {
  for (uint16_t i = 0; i < options_.lanes; ++i) {
    Lane& lane = lanes_[i];
    const uint32_t polled = lane.polled.load(std::memory_order_relaxed);
    const uint32_t visible = lane.visible.load(std::memory_order_acquire);  // pairs with the store in publish
    // What stays moves towards the newest; the slots in between are not in use.
    uint32_t to = visible;
    for (uint32_t from = visible; from != polled;) {
      const Completion& completion = lane.slots[--from & lane.mask];
      if (completion.local != local) lane.slots[--to & lane.mask] = completion;
    }
    UROCE_ASSERT(visible - to <= visible - polled);
    lane.polled.store(to, std::memory_order_release);  // pairs with the acquire in look_for_room
  }
}

void CompletionQueue::arm(bool solicited_only) {
  uint32_t before = armed_.load(std::memory_order_relaxed);
  uint32_t after = 0;
  do {
    // An armed-for-any queue is not weakened by a later solicited-only request (ibv_req_notify_cq(3)).
    after = (before & ~uint32_t{kArmedMask}) |
            (solicited_only && (before & kArmedMask) != kAny ? kSolicited : kAny);
  } while (!armed_.compare_exchange_weak(before, after, std::memory_order_seq_cst));
}

void CompletionQueue::remind() {
  if (options_.listener == nullptr) return;
  const uint32_t armed = armed_.load(std::memory_order_relaxed);
  // A poller may be about to notify for the same arming: one of the two does.
  if ((armed & kArmedMask) == kAny && !empty()) notify(armed);
}

void CompletionBatch::publish_all() {
  for (size_t i = 0; i < count_; ++i) {
    UROCE_ASSERT(queues_[i]->lanes_[lane_].touched);
    queues_[i]->lanes_[lane_].touched = false;
    if (queues_[i]->publish(lane_, now_)) [[unlikely]]
      hold(*queues_[i]);
  }
  count_ = 0;
}

void CompletionBatch::hold(CompletionQueue& queue) {
  due_ = std::min(due_, queue.held_until(lane_));
  CompletionQueue::Lane& lane = queue.lanes_[lane_];
  if (!std::exchange(lane.held, true)) lane.next_held = std::exchange(held_, &queue);
}

void CompletionBatch::notify_held() {
  due_ = kNever;
  for (CompletionQueue** link = &held_; *link != nullptr;) {
    CompletionQueue& queue = **link;
    if (queue.held_until(lane_) > now_) {
      due_ = std::min(due_, queue.held_until(lane_));
      link = &queue.lanes_[lane_].next_held;
    } else {
      unlink(link);
      queue.notify_held(lane_);
    }
  }
}

void CompletionBatch::unlink(CompletionQueue** link) {
  CompletionQueue::Lane& lane = (*link)->lanes_[lane_];
  UROCE_ASSERT(lane.held);
  lane.held = false;
  *link = std::exchange(lane.next_held, nullptr);
}

Duration CompletionBatch::time_to_due() const {
  return due_ == kNever ? Duration{INT64_MAX} : std::max(Duration{}, due_ - now_);
}

void CompletionBatch::forget(CompletionQueue& queue) {
  UROCE_ASSERT(!queue.lanes_[lane_].touched);  // all that was pushed is published
  CompletionQueue** link = &held_;
  while (*link != nullptr && *link != &queue) link = &(*link)->lanes_[lane_].next_held;
  if (*link != nullptr) unlink(link);
  UROCE_ASSERT(!queue.lanes_[lane_].held);
}

}  // namespace uroce::queue
