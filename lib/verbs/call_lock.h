#pragma once

#include <sched.h>

#include <atomic>

namespace uroce::verbs {

/// Makes a verb thread-safe per object, one uncontended lock per call. Held for a few hundred nanoseconds and
/// never across anything that waits; a thread that finds it taken spins a little and then gives up the CPU,
/// because on a small machine the holder may be the one that wants it. Lockable as std::lock_guard wants it.
class CallLock {
 public:
  void lock() {
    uint32_t spins = 0;
    // Acquire pairs with the release in unlock().
    while (taken_.exchange(true, std::memory_order_acquire)) {
      // Relaxed: only a hint when to try again.
      while (taken_.load(std::memory_order_relaxed)) {
        if (++spins % kSpins == 0) {
          sched_yield();
        } else {
          __builtin_ia32_pause();
        }
      }
    }
  }
  /// unlock(), and what the caller loads (seq_cst) afterwards is loaded after its stores became visible.
  void unlock_in_order() { taken_.exchange(false, std::memory_order_seq_cst); }
  void unlock() { taken_.store(false, std::memory_order_release); }  // pairs with the acquire in lock()

 private:
  static constexpr uint32_t kSpins = 64;
  std::atomic<bool> taken_{false};
};

}  // namespace uroce::verbs
