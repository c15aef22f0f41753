#pragma once

#include <atomic>
#include <cstdint>

namespace uroce::engine {

/// Where the background thread sleeps when nothing has happened for a while, and how it is woken.
class Parker {
 public:
  /// Any thread: something was left for a poller. Costs one load unless the thread sleeps deeply. A nudge
  /// that crosses its falling asleep may be missed; the longest sleep bounds the damage.
  void nudge() {
    // Relaxed: what was left for the poller is published by the ring it lies in.
    if (asleep_->load(std::memory_order_relaxed) == kParked) wake();
  }

  /// Set-up: the thread sleeps at `bell`, in memory that other processes may read, and may be woken by them,
  /// too: while it is 1, as host::Bell says.
  void sleep_at(std::atomic<uint32_t>& bell) {
    asleep_ = &bell;
    shared_ = true;
  }

  /// The background thread: sleeps until nudged, or for `ns`. True: it was nudged or woken.
  bool park(int64_t ns) { return sleep(kParked, ns); }
  /// Sleeps likewise, unless `found_work` returns true, which is called when nudges are heard already: what
  /// comes before it is seen by it, and what comes later wakes the thread.
  template <typename FoundWork>
  bool park_unless(FoundWork found_work, int64_t ns) {
    asleep_->store(kParked, std::memory_order_seq_cst);  // partner: nudge()
    if (!found_work()) return wait(kParked, ns);
    asleep_->store(kAwake, std::memory_order_relaxed);  // as in wait()
    return true;
  }
  /// Sleeps until wake(), which no nudge does, or for `ns`.
  void park_until_woken(int64_t ns) { (void)sleep(kParkedUntilWoken, ns); }
  /// Sleeps for `ns`, and no nudge ends that: short naps are not worth a system call of the application.
  static void nap(int64_t ns);
  void wake();

 private:
  static constexpr uint32_t kAwake = 0;
  static constexpr uint32_t kParked = 1;
  static constexpr uint32_t kParkedUntilWoken = 2;
  bool sleep(uint32_t how, int64_t ns);
  bool wait(uint32_t how, int64_t ns);

  std::atomic<uint32_t> own_{kAwake};
  std::atomic<uint32_t>* asleep_ = &own_;  // the futex
  bool shared_ = false;                    // with other processes
};

}  // namespace uroce::engine
