#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>

#include "base/values/time.h"
#include "engine/platform/cycle_clock.h"

namespace uroce::engine {

/// The longest time that passes for the protocol from one turn of a poller to the next. What goes beyond it,
/// the poller was not turned: that does not count against a peer.
inline constexpr Duration kClockStepMax = milliseconds(5);

struct MachineClocks {
  static uint64_t cycles() { return __builtin_ia32_rdtsc(); }
  static Instant system() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return {int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec};
  }
};

namespace detail {
extern std::atomic<bool> counts_cycles;
extern constinit thread_local CycleClock<MachineClocks> cycle_clock
    __attribute__((tls_model("initial-exec")));
}  // namespace detail

/// From now on clock_now() counts cycles, if the CPU's counter runs at one rate whatever the CPU does, and
/// the kernel's clock relies on it, too.
void count_cycles_if_steady();

/// The process's monotonic clock. Read once per turn by the thread that makes it, never below `engine`.
inline Instant clock_now() {
  // Relaxed: both clocks say the same.
  return detail::counts_cycles.load(std::memory_order_relaxed) ? detail::cycle_clock.now()
                                                               : MachineClocks::system();
}

}  // namespace uroce::engine
