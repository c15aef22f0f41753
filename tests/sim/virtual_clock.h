#pragma once

#include <atomic>
#include <functional>

#include "base/values/time.h"

namespace uroce::sim {

/// The time of the simulation that runs; there is one at a time in a process. Read by any thread.
class VirtualClock {
 public:
  static Instant now() { return {ns_.load(std::memory_order_relaxed)}; }  // a clock orders nothing else
  static void set(Instant now) { ns_.store(now.ns, std::memory_order_relaxed); }

  /// A thread of an application sleeps in a call: the thread that runs the simulation lets the rest go
  /// on.
  static void nap(int64_t ns) { while_napping_(nanoseconds(ns)); }
  static void on_nap(std::function<void(Duration)> function) { while_napping_ = std::move(function); }

 private:
  static inline std::atomic<int64_t> ns_{0};
  static inline std::function<void(Duration)> while_napping_;
};

}  // namespace uroce::sim
