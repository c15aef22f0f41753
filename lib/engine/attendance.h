#pragma once

#include <atomic>

namespace uroce::engine {

/// Where the background thread sleeps when nothing has happened for a while, and how it is woken.
class Attendance {
 public:
  /// Any thread: something was left for a poller. Costs one load unless the thread sleeps deeply. A nudge
  /// that crosses its falling asleep may be missed; the longest sleep bounds the damage.
  void nudge() {
    // Relaxed: what was left for the poller is published by the ring it lies in.
    if (asleep_.load(std::memory_order_relaxed) == kUntilNudged) wake();
  }

  /// The background thread: sleeps until nudged, or for `ns`.
  void sleep_deeply(int64_t ns) { sleep(kUntilNudged, ns); }
  /// The same, but no nudge wakes it, only wake().
  void sleep_through(int64_t ns) { sleep(kUntilWoken, ns); }
  /// Without being listed as asleep: short naps are not worth a system call of the application.
  static void nap(int64_t ns);
  void wake();

 private:
  static constexpr uint32_t kAwake = 0;
  static constexpr uint32_t kUntilNudged = 1;
  static constexpr uint32_t kUntilWoken = 2;
  void sleep(uint32_t how, int64_t ns);

  std::atomic<uint32_t> asleep_{kAwake};  // the futex
};

}  // namespace uroce::engine
