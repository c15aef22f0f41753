#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include "base/tables/pooled.h"
#include "base/values/contract.h"
#include "base/values/identifiers.h"
#include "base/values/time.h"
#include "queue/operation.h"
#include "queue/queue_memory.h"

namespace uroce::queue {

/// Values of `enum ibv_wc_status`; the verbs face asserts that they agree.
enum class CompletionStatus : uint8_t {
  kSuccess = 0,
  kLocalLengthError = 1,
  kLocalQpOperationError = 2,
  kLocalProtectionError = 4,
  kFlushed = 5,
  kWindowBindError = 6,  // in truth of any operation on regions and windows
  kBadResponse = 7,
  kLocalAccessError = 8,
  kRemoteInvalidRequest = 9,
  kRemoteAccessError = 10,
  kRemoteOperationError = 11,
  kRetryExceeded = 12,
  kRnrRetryExceeded = 13,
  kRemoteAborted = 16,
  kFatal = 19,
  kGeneral = 21,
};

struct Completion {
  uint64_t wr_id = 0;
  CompletionOpcode opcode = CompletionOpcode::kSend;
  CompletionStatus status = CompletionStatus::kSuccess;
  bool has_immediate = false;
  bool solicited = false;
  bool has_invalidated = false;
  bool has_grh = false;       // the message lies behind 40 bytes for an IP header
  uint8_t service_level = 0;  // of a datagram: wire/service_level.h
  uint16_t pkey_index = 0;
  uint16_t vlan_tci = 0;  // of a tagged message; 0: none
  uint32_t bytes = 0;
  uint32_t immediate = 0;  // network order; or the key that was invalidated
  QpNumber local;
  QpNumber remote;
  Instant time;  // of the turn that it was pushed in
};

class CompletionQueue;

/// Called by a poller, after the completions are visible, when an armed queue got what it was armed for, and
/// by remind(). Must not block.
class CompletionListener {
 public:
  virtual ~CompletionListener() = default;
  virtual void completed(CompletionQueue& queue) = 0;
};

/// Called by the poller that found no room for a completion, once in a queue's life. Must not block.
class OverrunListener {
 public:
  virtual ~OverrunListener() = default;
  virtual void overran(CompletionQueue& queue) = 0;
};

/// Completions from pollers to the application. Each poller that serves QPs of this queue writes a lane of
/// its own; the application reads all lanes, under the lock of the caller. What push() writes becomes visible
/// by publish(). Completions of one queue pair keep their order: when it moves to another poller, what that
/// one pushes waits for what the last one has pushed (follow()).
class CompletionQueue : public Pooled {
 public:
  struct Options {
    uint32_t depth = 0;                      // completions that can wait at once, per lane; exact; at first
    uint16_t lanes = 1;                      // at most 64
    CompletionListener* listener = nullptr;  // not owned; nullptr: never armed
    OverrunListener* overrun_listener = nullptr;  // not owned
    void* owner = nullptr;                        // for the face that made it
    uint32_t number = 0;                          // for logs; 0: it has none
    std::pmr::memory_resource* memory = nullptr;  // not owned; nullptr: the pool
  };
  explicit CompletionQueue(const Options& options);
  ~CompletionQueue();

  [[nodiscard]] const Options& options() const { return options_; }

  /// What a lane keeps its completions in.
  class Slots {
   public:
    Slots() = default;
    Slots(uint32_t count, std::pmr::memory_resource* from);
    [[nodiscard]] Completion& operator[](uint32_t index) const { return first_[index]; }

   private:
    static_assert(std::is_trivially_destructible_v<Completion>);
    QueueMemory memory_;
    Completion* first_ = nullptr;
  };
  [[nodiscard]] Slots slots_for(uint32_t depth) const;
  /// The poller of the lane, while no thread polls: from now on `depth` completions can wait there. `slots`
  /// is slots_for(depth), and becomes those that the lane had. False, and nothing changed: more than that
  /// wait already.
  bool resize(uint16_t lane, uint32_t depth, Slots& slots);
  /// How many completions can wait on each lane. For the caller of resize().
  [[nodiscard]] uint32_t depth() const;

  /// A queue pair of the poller with this lane now completes here. Never taken back. Any thread.
  void use_lane(uint16_t lane) {
    UROCE_ASSERT(lane < options_.lanes);
    lanes_used_.fetch_or(uint64_t{1} << lane, std::memory_order_relaxed);
  }
  /// Bit i: lane i is used. Any thread; relaxed, because a thread that posts to a queue pair has been told of
  /// it before.
  [[nodiscard]] uint64_t lanes_used() const { return lanes_used_.load(std::memory_order_relaxed); }

  /// When an armed queue notifies: not before `count` of the completions that it was armed for are visible,
  /// or `period` has passed since the first of them; without one of the two, at once. Any thread.
  struct Moderation {
    uint16_t count = 0;
    Duration period{};  // less than 2^16 microseconds
  };
  void moderate(const Moderation& moderation);
  /// The queue is moderated, or was once: a CompletionBatch may know of it.
  [[nodiscard]] bool ever_moderated() const { return ever_moderated_.load(std::memory_order_relaxed); }

  // Poller.
  /// False when the lane is full: the completion is lost and overrun() stays true.
  bool push(uint16_t lane, const Completion& completion) {
    UROCE_ASSERT(lane < options_.lanes);
    Completion* const slot = begin(lanes_[lane]);
    if (slot == nullptr) return false;
    *slot = completion;
    lanes_[lane].commit(*slot);
    return true;
  }
  /// Makes everything pushed on the lane visible and notifies the listener when armed. True: it will have to
  /// be notified later, by notify_held().
  bool publish(uint16_t lane, Instant now = {});
  /// When that is.
  [[nodiscard]] Instant held_until(uint16_t lane) const;
  void notify_held(uint16_t lane);
  /// Completions pushed on the lane so far, free-running.
  [[nodiscard]] uint32_t pushed(uint16_t lane) const { return lanes_[lane].pushed; }
  /// The one that was pushed as number `position` and is not published yet.
  Completion& unpublished(uint16_t lane, uint32_t position);
  /// The poller of `lane`: what it pushes from now on is polled after the first `position` completions of
  /// lane `other`, which are published. may_follow() holds.
  void follow(uint16_t lane, uint16_t other, uint32_t position);
  /// The lane waits for no other one. Stays so until the next follow().
  [[nodiscard]] bool may_follow(uint16_t lane) const {
    return lanes_[lane].follows.load(std::memory_order_acquire) == kNoLane;  // pairs with pass()
  }

  // Application.
  /// Up to so many: `take` sees each, in its slot. How many it saw.
  template <typename Take>
  size_t poll(size_t count_max, Take take);
  size_t poll(std::span<Completion> completions) {
    return poll(completions.size(),
                [to = completions.data()](const Completion& completion) mutable { *to++ = completion; });
  }
  /// Takes the completions of that queue pair away, as far as they are visible.
  void remove(QpNumber local);
  /// The next matching completion that becomes visible after this call notifies the listener, once.
  void arm(bool solicited_only);
  /// After a poll that got all it asked for, and outside the caller's lock: notifies the listener if the
  /// queue is armed (for any) and more is there. Some programs poll once for each event, as many as they have
  /// room for; they would wait for ever for an event of what they left. Others poll on and get an event too
  /// many.
  void remind();
  /// The poller of a lane: from now on the queue is overrun, as if a completion had found no room.
  void order_overrun();
  [[nodiscard]] bool overrun() const { return overrun_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool empty() const {
    for (uint16_t i = 0; i < options_.lanes; ++i) {
      const Lane& lane = lanes_[i];
      if (lane.visible.load(std::memory_order_acquire) != lane.polled.load(std::memory_order_acquire))
        return false;
    }
    return true;
  }

 private:
  friend class CompletionBatch;
  static constexpr uint16_t kNoLane = UINT16_MAX;
  /// Free-running counters. `pushed` is the poller's own; completions in [polled, visible) can be read.
  struct Lane {
    /// The slot that begin() gave is written.
    void commit(const Completion& completion) {
      ++pushed;
      solicited += static_cast<uint32_t>(completion.solicited) |
                   static_cast<uint32_t>(completion.status != CompletionStatus::kSuccess);
    }

    Slots slots;
    uint32_t depth = 0;
    uint32_t mask = 0;
    alignas(64) uint32_t pushed = 0;
    uint32_t polled_cache = 0;
    uint32_t solicited = 0;  // since the last publish: solicited or failed completions
    bool touched = false;    // the queue is among those that the batch will publish
    // Of a moderated queue that is to notify later, and is in the batch's list: for which arming, and when.
    bool held = false;
    uint32_t held_armed = 0;
    Instant held_until{};
    CompletionQueue* next_held = nullptr;
    alignas(64) std::atomic<uint32_t> visible{0};
    // What was pushed from `follows_from` on waits until lane `follows` is polled up to `follows_until`. Set
    // by the poller while there is none, cleared by the application.
    std::atomic<uint16_t> follows{kNoLane};
    uint32_t follows_from = 0;
    uint32_t follows_until = 0;
    alignas(64) std::atomic<uint32_t> polled{0};
  };
  /// The lower bits of `armed_`; those above count the notifications.
  enum Armed : uint32_t { kIdle = 0, kSolicited = 1, kAny = 2, kArmedMask = 3, kNotified = 4 };

  /// Where the next completion of the lane is to be written, or nullptr when it is full.
  Completion* begin(Lane& lane) {
    if (lane.pushed - lane.polled_cache >= lane.depth && !look_for_room(lane)) [[unlikely]]
      return nullptr;
    UROCE_ASSERT(lane.pushed - lane.polled_cache < lane.depth);
    return &lane.slots[lane.pushed & lane.mask];
  }
  /// The poller knows of no free slot: whether the application has polled since it looked last. If not, the
  /// queue is overrun.
  bool look_for_room(Lane& lane);
  /// Up to which position a lane that follows another one may be polled, of what is visible in it.
  uint32_t pass(Lane& lane, uint32_t visible);
  template <typename Take>
  size_t poll_lanes(size_t count_max, Take& take, bool& waits);
  [[nodiscard]] static bool same_arming(uint32_t before, uint32_t now);
  bool notify(uint32_t armed);
  [[nodiscard]] bool hold(Lane& lane, uint32_t armed, uint32_t completions, Instant now);

  Options options_;
  std::unique_ptr<Lane[]> lanes_;
  uint16_t next_lane_ = 0;
  std::atomic<uint32_t> armed_{kIdle};
  std::atomic<uint32_t> moderation_{0};  // count and, in the upper half, microseconds
  std::atomic<uint32_t> held_{0};        // completions of this arming so far; moderated queues only
  std::atomic<bool> ever_moderated_{false};
  std::atomic<bool> overrun_{false};
  std::atomic<uint64_t> lanes_used_{0};
};

template <typename Take>
size_t CompletionQueue::poll(size_t count_max, Take take) {
  bool waits = false;
  size_t count = poll_lanes(count_max, take, waits);
  // A lane may have been looked at before the one that it follows, and a program that gets less than it asked
  // for may sleep.
  for (size_t more = count; waits && more > 0 && count < count_max; count += more) {
    waits = false;
    more = poll_lanes(count_max - count, take, waits);
  }
  return count;
}

/// Each lane once. `waits`: one has completions that come after those of another.
template <typename Take>
inline size_t CompletionQueue::poll_lanes(size_t count_max, Take& take, bool& waits) {
  size_t count = 0;
  for (uint16_t tried = 0; tried < options_.lanes && count < count_max; ++tried) {
    Lane& lane = lanes_[next_lane_];
    const uint32_t first = lane.polled.load(std::memory_order_relaxed);
    uint32_t visible = lane.visible.load(std::memory_order_seq_cst);  // see publish
    UROCE_ASSERT(visible - first <= lane.mask + 1);
    // Relaxed: what follows was published after it was set.
    if (lane.follows.load(std::memory_order_relaxed) != kNoLane) [[unlikely]] {
      const uint32_t passed = pass(lane, visible);
      waits |= passed != std::exchange(visible, passed);
    }
    const auto end = first + static_cast<uint32_t>(std::min<size_t>(visible - first, count_max - count));
    for (uint32_t number = first; number != end; ++number)
      take(std::as_const(lane.slots[number & lane.mask]));
    count += end - first;
    lane.polled.store(end, std::memory_order_release);  // pairs with the acquire in look_for_room
    // A lane that was not emptied goes first next time; otherwise the lanes take turns.
    if (end != visible) break;
    next_lane_ = static_cast<uint16_t>(next_lane_ + 1 == options_.lanes ? 0 : next_lane_ + 1);
  }
  return count;
}

/// The completion queues that a turn has pushed to, so that the engine can publish them together after the
/// placed bytes are visible.
class CompletionBatch {
 public:
  static constexpr size_t kQueuesMax = 64;

  explicit CompletionBatch(uint16_t lane) : lane_(lane) {}

  /// What is pushed from now on happens at `now`.
  void set_time(Instant now) { now_ = now; }

  /// Where it was written, and may be added to as long as it is not published; nullptr on overrun of the
  /// queue. In line, so that it is made there.
  [[gnu::always_inline]] inline Completion* push(CompletionQueue& queue, Completion completion) {
    UROCE_ASSERT(lane_ < queue.options_.lanes);
    CompletionQueue::Lane& lane = queue.lanes_[lane_];
    if (!lane.touched) [[unlikely]]
      touch(queue, lane);
    Completion* const slot = queue.begin(lane);
    if (slot == nullptr) [[unlikely]]
      return nullptr;
    completion.time = now_;
    *slot = completion;
    lane.commit(completion);
    return slot;
  }
  /// The next push to the queue is number `position()` of this poller's lane.
  [[nodiscard]] uint32_t position(const CompletionQueue& queue) const { return queue.pushed(lane_); }
  /// Takes back what was said too early: change(Completion&) sees every completion from `position` on, oldest
  /// first, none of which is published yet.
  template <typename Change>
  void revise(CompletionQueue& queue, uint32_t position, Change change) {
    UROCE_ASSERT(static_cast<int32_t>(queue.pushed(lane_) - position) >= 0);
    for (const uint32_t end = queue.pushed(lane_); position != end; ++position)
      change(queue.unpublished(lane_, position));
  }
  /// No room for the two queues that one packet may touch: publish_all() first. Behind it is room for those
  /// of queue pairs that lost messages of the burst.
  [[nodiscard]] bool full() const { return count_ + 2 > kQueuesMax; }
  void publish_all();
  [[nodiscard]] bool empty() const { return count_ == 0; }

  /// Notifies the listeners of moderated queues whose time has come.
  void notify_due() {
    if (due_ <= now_) [[unlikely]]
      notify_held();
  }
  /// How long that takes; kNever's when no thread waits.
  [[nodiscard]] Duration time_to_due() const;
  /// A moderated queue is about to end; it is not pushed to any more.
  void forget(CompletionQueue& queue);

 private:
  void touch(CompletionQueue& queue, CompletionQueue::Lane& lane) {
    UROCE_ASSERT(!lane.touched && count_ < queues_.size());
    lane.touched = true;
    queues_[count_++] = &queue;
  }
  void hold(CompletionQueue& queue);
  void notify_held();
  void unlink(CompletionQueue** link);

  uint16_t lane_;
  Instant now_{};
  Instant due_ = kNever;
  CompletionQueue* held_ = nullptr;  // a list: those with a notification to come
  size_t count_ = 0;
  std::array<CompletionQueue*, 3 * kQueuesMax> queues_{};
};

}  // namespace uroce::queue
