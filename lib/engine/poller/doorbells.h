#pragma once

#include <atomic>
#include <utility>

#include "base/values/contract.h"

namespace uroce::engine {

/// The part of a queue pair that a doorbell is rung with: its place in the list of its poller.
class Doorbell {
 private:
  friend class Doorbells;
  /// The doorbell is in the list, or about to be. Set by a thread that posts, cleared by the poller before it
  /// looks at the queues; both by exchange, so what was posted before a doorbell is seen after it.
  std::atomic<bool> rung_{false};
  std::atomic<Doorbell*> next_{nullptr};
};

/// The doorbells that a poller has yet to hear, in the order in which they rang. Any thread rings, one takes.
/// Each doorbell is in it once at most, and brings its own place: there is no memory for all that could ring
/// at once, and no thread finds the list full.
///
/// The list is Vyukov's intrusive queue. `newest_` is where threads append, `oldest_` where the poller takes;
/// `stub_` stands in the list when there would be nothing else, so that it is never empty.
class Doorbells {
 public:
  Doorbells() = default;
  Doorbells(const Doorbells&) = delete;
  Doorbells& operator=(const Doorbells&) = delete;

  /// Any thread. False: it was rung before, and the poller has not heard that yet.
  bool ring(Doorbell& doorbell) {
    if (doorbell.rung_.exchange(true, std::memory_order_acq_rel)) return false;  // pairs with take()
    append(doorbell);
    return true;
  }

  /// The poller. Null: none has rung. One that is about to be appended counts as not rung yet, and those
  /// behind it are found with it.
  Doorbell* take() {
    Doorbell* const doorbell = pop();
    // The poller looks at the queues after this: what is posted later rings again. Pairs with ring().
    if (doorbell != nullptr) doorbell->rung_.exchange(false, std::memory_order_acq_rel);
    return doorbell;
  }

  /// The poller: whether the doorbell is in the list. No thread rings it any more.
  [[nodiscard]] static bool has_rung(const Doorbell& doorbell) {
    return doorbell.rung_.load(std::memory_order_acquire);  // pairs with ring()
  }

 private:
  void append(Doorbell& doorbell) {
    doorbell.next_.store(nullptr, std::memory_order_relaxed);  // no thread sees it yet
    // Acquires the place of the one before, and releases this one's to the thread that appends the next.
    Doorbell* const before = newest_.exchange(&doorbell, std::memory_order_acq_rel);
    before->next_.store(&doorbell, std::memory_order_release);  // pairs with next_of()
  }
  static Doorbell* next_of(const Doorbell& doorbell) {
    return doorbell.next_.load(std::memory_order_acquire);  // pairs with append()
  }

  Doorbell* pop() {
    if (oldest_ == &stub_) {
      Doorbell* const first = next_of(stub_);
      if (first == nullptr) return nullptr;
      oldest_ = first;
    }
    Doorbell* next = next_of(*oldest_);
    if (next == nullptr) {
      // The last one cannot leave an empty list: the stub goes behind it. If it is not the newest, the thread
      // that appends the next one is not done, and rings for both.
      if (newest_.load(std::memory_order_relaxed) != oldest_) return nullptr;
      append(stub_);
      next = next_of(*oldest_);
      if (next == nullptr) return nullptr;
    }
    return std::exchange(oldest_, next);
  }

  alignas(64) std::atomic<Doorbell*> newest_{&stub_};
  alignas(64) Doorbell* oldest_ = &stub_;  // the poller's own
  Doorbell stub_;
};

}  // namespace uroce::engine
