#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/tables/block_code.h"
#include "base/tables/pooled.h"
#include "base/tables/timer_wheel.h"
#include "base/values/identifiers.h"
#include "engine/poller/doorbells.h"
#include "engine/poller/rss_mismatch.h"
#include "qp/attributes/event.h"
#include "queue/work_queue.h"

namespace uroce::engine {

class Poller;
struct PollerQp;
struct XrcDomain;

/// The place of an XRC target among those of its domain.
struct XrcPlace {
  XrcDomain& domain;
  // Under its mutex.
  PollerQp* previous = nullptr;
  PollerQp* next = nullptr;
};

/// What its poller knows of a queue pair beside qp::QueuePair: places in lists, and which poller that is.
struct PollersPlace : qp::EventListener, TimerNode, Doorbell {
  PollersPlace(Poller* const* its_pollers, uint16_t index)
      : pollers(its_pollers), owner_index(index), made_for(index) {}

  Poller* const* const pollers;  // those of the device, by index
  void* owner = nullptr;         // for the face that made it
  // In the poller's list of active queue pairs when `active`.
  PollerQp* previous_active = nullptr;
  PollerQp* next_active = nullptr;
  PollerQp* next_raised = nullptr;    // in the poller's list of those with events
  std::atomic<uint32_t> owner_index;  // of a poller, and whether the queue pair is on its way there
  // Of its last turn in which it sent, while others send: the last frame, and whether there was more to send.
  uint32_t frame_bytes = 0;
  const uint16_t made_for;  // poller, by its index; not changed when the queue pair moves
  bool may_follow = false;  // its packets, to another poller
  bool active = false;
  bool has_more = false;
  uint8_t events = 0;  // bit per qp::Event
  /// Which program of this host, or none, has sent the last packet that was looked at: frames from there need
  /// no other look. The first value is no program's.
  BlockCode sender = kUnknownSender;

  static constexpr BlockCode kUnknownSender{0xFFFF};

 protected:
  ~PollersPlace() = default;
};

/// A queue pair with the queues that the application's threads and its poller share. Made and destroyed by
/// Device. What lies around the queues keeps all others away from the lines of the posting threads.
struct QpSlot : Pooled, PollersPlace {
  QpSlot(Poller* const* its_pollers, uint16_t index, QpNumber its_number, queue::SendQueue::Ring sends,
         queue::ReceiveQueue::Ring receives)
      : PollersPlace(its_pollers, index),
        send_queue(std::move(sends)),
        number(its_number),
        receive_queue(std::move(receives)) {}

  queue::SendQueue send_queue;
  const QpNumber number;
  // All queue pairs of its device, under the device's mutex.
  PollerQp* previous = nullptr;
  PollerQp* next = nullptr;
  std::unique_ptr<XrcPlace> xrc;  // of an XRC target
  RssMismatch rss_mismatch;       // its poller's
  queue::ReceiveQueue receive_queue;
  /// Set by the poller (seq_cst) when the queue pair enters the error state and before it flushes, cleared
  /// when it leaves it. A thread that publishes receive requests looks at it afterwards and rings the
  /// doorbell when it is set.
  std::atomic<bool> in_error{false};
  /// Whether the queue pair was ready to receive some time: then packets may be under way to its number.
  bool known_to_peers = false;
  int32_t deficit = 0;  // bytes; its poller's SendScheduler's

  /// Before the calling thread posts. If it posted to another queue pair last, the lines of this one come
  /// into the cache at once, not one by one.
  void prepare_to_post() const {
    if (std::exchange(posted_last, this) != this) prefetch();
  }

 protected:
  ~QpSlot() = default;

 private:
  [[gnu::noinline]] void prefetch() const;

  /// By the calling thread; only compared. initial-exec: looked at with every post.
  static constinit thread_local const QpSlot* posted_last __attribute__((tls_model("initial-exec")));
};

}  // namespace uroce::engine
