#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/values/time.h"

namespace uroce::drivers {

/// Keeps pollers out of a device while its connection is made, ended, or the device stopped and started
/// again. A poller pays two plain stores per burst; the other side has the kernel put the barrier in
/// (membarrier).
class Gate {
 public:
  explicit Gate(uint16_t queues);

  /// The queue's poller, around each use of the device. False: stay out, and do not call leave().
  bool enter(uint16_t queue) {
    inside_[queue].inside.store(true, std::memory_order_relaxed);  // close() orders it against the next load
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (open_.load(std::memory_order_acquire)) return true;  // pairs with the release in open()
    leave(queue);
    return false;
  }
  void leave(uint16_t queue) {
    inside_[queue].inside.store(false, std::memory_order_release);  // pairs with the acquire in close()
  }

  /// The queue's poller, inside: there was nothing to receive.
  void found_nothing(uint16_t queue) {
    std::atomic<uint32_t>& empty = inside_[queue].empty;
    empty.store(empty.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  /// Returns when the poller of each queue has looked and found nothing to receive since the call, or after
  /// `patience`, or at once when they are kept out or have ended.
  void wait_until_empty(Duration patience) const;
  /// Any thread: the pollers have ended, and wait_until_empty() does not wait for them.
  void pollers_ended() { ended_.store(true, std::memory_order_relaxed); }  // nothing else goes with it

  /// Returns when no poller is inside, and none enters until open().
  void close();
  void open();

 private:
  struct alignas(64) Place {
    std::atomic<bool> inside{false};
    std::atomic<uint32_t> empty{0};  // how often there was nothing to receive
  };

  const uint16_t queues_;
  const std::unique_ptr<Place[]> inside_;
  std::atomic<bool> open_{false};
  std::atomic<bool> ended_{false};
};

}  // namespace uroce::drivers
