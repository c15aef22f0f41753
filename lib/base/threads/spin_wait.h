#pragma once

#include <sched.h>

#include <cstdint>

namespace uroce {

/// Waits for another thread that is about to finish: without a syscall at first, then by giving the CPU away,
/// because on a small machine the thread that is waited for may be the one that wants it. One object for each
/// wait.
class SpinWait {
 public:
  /// True: the CPU was offered to others, so that time may have passed.
  bool once() {
    if (spins_ == kSpins) {
      sched_yield();
      return true;
    }
    ++spins_;
    __builtin_ia32_pause();
    return false;
  }

 private:
  /// Longer than a thread that runs needs for what it is waited for: a few hundred nanoseconds.
  static constexpr uint32_t kSpins = 64;
  uint32_t spins_ = 0;
};

}  // namespace uroce
