#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>

#include "base/values/contract.h"
#include "engine/poller/early_packets.h"
#include "engine/poller/qp_slot.h"
#include "qp/queue_pair/queue_pair_storage.h"

namespace uroce::engine {

class Poller;
struct XrcDomain;

/// A queue pair as its poller sees it. Made and destroyed by Device on a control thread; in between
/// everything but the doorbell belongs to the poller. That may be another one after each turn
/// (queue_pair_moves.h): what was asked from outside of one is asked once more in its turn.
struct PollerQp final : QpSlot {
  /// The queues and the listener of `options` do not count: it has `sends`, `receives`, and a listener of its
  /// own, which tells that of `options` after the turn. `pollers`: those of the device, by index; they
  /// outlive it. It is made for the one with `index`.
  PollerQp(qp::QueuePair::Options options, queue::SendQueue::Ring sends, queue::ReceiveQueue::Ring receives,
           std::span<Poller* const> its_pollers, uint16_t index)
      : QpSlot(its_pollers.data(), index, options.number, std::move(sends), std::move(receives)),
        listener(std::exchange(options.listener, static_cast<qp::EventListener*>(this))),
        queue_pair(with_queues(options)) {}

  /// Its poller, or the one that it is on its way to. Any thread.
  [[nodiscard]] Poller& poller() const { return *pollers[poller_index()]; }
  [[nodiscard]] uint16_t poller_index() const { return static_cast<uint16_t>(owner()); }
  /// In a turn of the poller with that index: the queue pair is there.
  [[nodiscard]] bool is_of(uint16_t index) const { return owner() == index; }
  /// Its poller, in a turn: it touches nothing of the queue pair any more.
  void begin_move(uint16_t to) { set_owner(to | kOnItsWay); }
  /// The poller that it has moved to, in a turn.
  void end_move(uint16_t to) { set_owner(to); }

  /// Whether a frame of that program of this host can be the peer's; none: it came from outside, or was sent
  /// by this process. The address tells hosts apart, but not the programs of one host. A datagram may come
  /// from any of them.
  [[nodiscard]] bool may_send(BlockCode from) const {
    const qp::Attributes& its = queue_pair.attributes();
    if (its.on_host) return from.contains(its.destination);
    return !its.to_self || from.value == 0;
  }

  /// What was raised since the last time, to the listener.
  void raise_events() {
    for (unsigned left = std::exchange(events, uint8_t{0}); left != 0; left &= left - 1)
      listener->raised(static_cast<qp::Event>(std::countr_zero(left)));
  }

  /// Before the queue pair is used, after others: its lines come into the cache at once, not one by one. Its
  /// transport's are known when the first of them are there.
  void prefetch_all() const {
    prefetch_own();
    prefetch_transport();
  }
  void prefetch_own() const;
  void prefetch_transport() const;

 private:
  static constexpr uint32_t kOnItsWay = 1u << 16;

 public:
  qp::EventListener* const listener;
  // Of its poller's EarlyPackets.
  EarlyList early_requests;
  EarlyList early_responses;
  qp::QueuePairStorage queue_pair;

  /// Whether requests or responses that came early are kept. It is one branch, for it stands behind each
  /// packet.
  [[nodiscard]] bool keeps_early() const {
    const auto word = [](const EarlyList& list) { return std::bit_cast<uintptr_t>(list.slots); };
    return (word(early_requests) | word(early_responses)) != 0;
  }

 private:
  [[nodiscard]] uint32_t owner() const { return owner_index.load(std::memory_order_acquire); }
  // Pairs with owner(): a thread that finds the next owner sees what the last one did.
  void set_owner(uint32_t owner) { owner_index.store(owner, std::memory_order_release); }
  void raised(qp::Event event) override;
  [[nodiscard]] qp::QueuePair::Options with_queues(qp::QueuePair::Options options) {
    options.send_queue = &send_queue;
    options.receive_queue = &receive_queue;
    return options;
  }
};

/// The queue pairs that may have something to do, in the order of their turns. One poller.
class ActiveList {
 public:
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }

  void push_back(PollerQp& entry) {
    if (entry.active) return;
    entry.active = true;
    entry.previous_active = last_;
    entry.next_active = nullptr;
    (last_ != nullptr ? last_->next_active : first_) = &entry;
    last_ = &entry;
    ++size_;
  }

  PollerQp& pop_front() {
    UROCE_ASSERT(first_ != nullptr && first_->active);
    PollerQp& entry = *first_;
    remove(entry);
    return entry;
  }

  void remove(PollerQp& entry) {
    if (!entry.active) return;
    UROCE_ASSERT(size_ > 0);
    entry.active = false;
    (entry.previous_active != nullptr ? entry.previous_active->next_active : first_) = entry.next_active;
    (entry.next_active != nullptr ? entry.next_active->previous_active : last_) = entry.previous_active;
    --size_;
    UROCE_ASSERT((size_ == 0) == (first_ == nullptr) && (size_ == 0) == (last_ == nullptr));
  }

 private:
  PollerQp* first_ = nullptr;
  PollerQp* last_ = nullptr;
  size_t size_ = 0;
};

}  // namespace uroce::engine
