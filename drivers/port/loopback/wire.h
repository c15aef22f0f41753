#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/threads/spsc_ring.h"
#include "drivers/port/buffer_pool.h"
#include "drivers/port/loopback/steering.h"

namespace uroce::drivers {

inline constexpr uint16_t kLoopbackQueuesMax = 16;

/// A frame on its way: the sender's buffer itself.
struct FrameInFlight {
  Buffer* buffer = nullptr;
  uint32_t length = 0;
};

/// One direction of a wire. Every pair of sending and receiving queues has a ring of its own, so that each
/// ring has one producer and one consumer.
class Lane {
 public:
  static constexpr size_t kRingFrames = 1024;
  using Ring = SpscRing<FrameInFlight>;

  /// How many receiving queues listen; 0 when the far end is closed. A sending queue's poller.
  [[nodiscard]] uint16_t receivers() const {
    return receivers_.load(std::memory_order_acquire);  // pairs with the release in listen()
  }
  /// How many sending queues there may be frames from. A receiving queue's poller.
  [[nodiscard]] uint16_t senders() const {
    return senders_.load(std::memory_order_acquire);  // pairs with the release in send_from()
  }
  [[nodiscard]] Ring& ring(uint16_t receiver, uint16_t sender) const { return *rings_[receiver][sender]; }

  /// Control path, under the table's lock: the sending end has `queues` queues. Rings, once made, stay.
  void send_from(uint16_t queues);
  /// Control path, under the table's lock: the receiving end opened with `queues` queues, or (0) closed.
  /// Frames that were not taken go back to their pools.
  void listen(uint16_t queues);

 private:
  void make_rings();
  void drain();

  std::array<std::array<std::unique_ptr<Ring>, kLoopbackQueuesMax>, kLoopbackQueuesMax> rings_;
  std::atomic<uint16_t> senders_{0};    // grows only
  std::atomic<uint16_t> receivers_{0};  // now
  uint16_t senders_made_ = 0;           // rings exist for that many
  uint16_t receivers_made_ = 0;
};

/// Two ends and everything that a frame of either may still refer to; lives as long as one end is open.
struct Wire {
  std::array<Lane, 2> to;  // to[e] leads to end e
  std::array<std::array<std::unique_ptr<BufferPool>, kLoopbackQueuesMax>, 2> pools;
  std::array<std::atomic<Steering>, 2> steering{};  // how end e wants its frames spread
  std::array<bool, 2> open{};
};

}  // namespace uroce::drivers
