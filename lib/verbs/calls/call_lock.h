#pragma once

#include <atomic>

#include "base/threads/spin_wait.h"

namespace uroce::verbs {

/// Makes a verb thread-safe per object, one uncontended lock per call. Held for a few hundred nanoseconds and
/// never across anything that waits. Lockable as std::lock_guard wants it.
class CallLock {
 public:
  void lock() {
    SpinWait wait;
    // Acquire pairs with the release in unlock().
    while (taken_.exchange(true, std::memory_order_acquire)) {
      // Relaxed: only a hint when to try again.
      while (taken_.load(std::memory_order_relaxed)) wait.once();
    }
  }
  /// unlock(), and what the caller loads (seq_cst) afterwards is loaded after its stores became visible.
  void unlock_in_order() { taken_.exchange(false, std::memory_order_seq_cst); }
  void unlock() { taken_.store(false, std::memory_order_release); }  // pairs with the acquire in lock()

 private:
  std::atomic<bool> taken_{false};
};

}  // namespace uroce::verbs
