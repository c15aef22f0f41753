#pragma once

#include <bit>
#include <utility>

#include "base/contract.h"
#include "base/timer_wheel.h"
#include "engine/poller/doorbells.h"
#include "engine/poller/early_packets.h"
#include "engine/poller/queue_pair_handle.h"
#include "qp/queue_pair.h"

namespace uroce::engine {

class Poller;
struct XrcDomain;

/// A queue pair as its poller sees it. Made and destroyed by Device on a control thread; in between
/// everything but the doorbell belongs to the poller.
struct QueuePairEntry final : QueuePairHandle, TimerNode, Doorbell, private qp::EventListener {
  /// The listener of `options` is told after the turn.
  QueuePairEntry(qp::QueuePair::Options options, Poller& its_poller, uint16_t its_poller_index)
      : poller(its_poller),
        poller_index(its_poller_index),
        listener(std::exchange(options.listener, static_cast<qp::EventListener*>(this))),
        queue_pair(options) {}

  /// What was raised since the last time, to the listener.
  void raise_events() {
    for (uint32_t left = std::exchange(events_, 0); left != 0; left &= left - 1)
      listener->raised(static_cast<qp::Event>(std::countr_zero(left)));
  }

  /// Before the queue pair is used, after others: the lines of it come into the cache at once, not one by
  /// one.
  void prefetch_all() const;

  Poller& poller;
  const uint16_t poller_index;  // within the device
  qp::EventListener* const listener;
  DomainId domain;
  XrcDomain* xrc_domain = nullptr;
  // All of its device, under the device's mutex.
  QueuePairEntry* previous = nullptr;
  QueuePairEntry* next = nullptr;
  // XRC targets: those of the same domain, under its mutex.
  QueuePairEntry* previous_target = nullptr;
  QueuePairEntry* next_target = nullptr;
  // In the poller's list of active queue pairs when `active`.
  bool active = false;
  // Of its last turn in which it sent, while others send: the last frame, and whether there was more to send.
  bool has_more = false;
  uint32_t frame_bytes = 0;
  QueuePairEntry* previous_active = nullptr;
  QueuePairEntry* next_active = nullptr;
  // Of its poller's EarlyPackets.
  EarlyList early_requests;
  EarlyList early_responses;
  QueuePairEntry* next_raised = nullptr;  // in the poller's list of those with events
  qp::QueuePair queue_pair;

 private:
  void raised(qp::Event event) override;

  uint32_t events_ = 0;  // bit per qp::Event
};

/// The queue pairs that may have something to do, in the order of their turns. One poller.
class ActiveList {
 public:
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }

  void push_back(QueuePairEntry& entry) {
    if (entry.active) return;
    entry.active = true;
    entry.previous_active = last_;
    entry.next_active = nullptr;
    (last_ != nullptr ? last_->next_active : first_) = &entry;
    last_ = &entry;
    ++size_;
  }

  QueuePairEntry& pop_front() {
    UROCE_ASSERT(first_ != nullptr && first_->active);
    QueuePairEntry& entry = *first_;
    remove(entry);
    return entry;
  }

  void remove(QueuePairEntry& entry) {
    if (!entry.active) return;
    UROCE_ASSERT(size_ > 0);
    entry.active = false;
    (entry.previous_active != nullptr ? entry.previous_active->next_active : first_) = entry.next_active;
    (entry.next_active != nullptr ? entry.next_active->previous_active : last_) = entry.previous_active;
    --size_;
    UROCE_ASSERT((size_ == 0) == (first_ == nullptr) && (size_ == 0) == (last_ == nullptr));
  }

 private:
  QueuePairEntry* first_ = nullptr;
  QueuePairEntry* last_ = nullptr;
  size_t size_ = 0;
};

}  // namespace uroce::engine
