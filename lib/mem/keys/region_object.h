#pragma once

#include <atomic>
#include <cstdint>

#include "base/threads/spin_wait.h"
#include "base/values/contract.h"

namespace uroce::mem {

/// What belongs to a region besides its entry in the key table, for those regions that may change while they
/// live or have windows over them. Owned by the region's maker; pollers may refer to it until the grace
/// period after its entry was taken back.
///
/// The lock serialises the writes to the region's entry and guards what is in here. Readers of the entry do
/// not take it. A poller tries, and comes back in its next turn.
class RegionObject {
 public:
  RegionObject() = default;
  RegionObject(const RegionObject&) = delete;
  RegionObject& operator=(const RegionObject&) = delete;

  bool try_lock() { return !locked_.exchange(true, std::memory_order_acquire); }  // pairs with unlock()
  void lock() {
    SpinWait wait;
    while (!try_lock()) wait.once();
  }
  void unlock() {
    UROCE_ASSERT(locked_.load(std::memory_order_relaxed));  // by this thread
    locked_.store(false, std::memory_order_release);        // pairs with try_lock()
  }

  // Under the lock.
  uint32_t windows = 0;  // that are bound over the region

 protected:
  ~RegionObject() = default;

 private:
  std::atomic<bool> locked_{false};
};

}  // namespace uroce::mem
