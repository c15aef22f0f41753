#pragma once

#include <time.h>

#include "base/time.h"

namespace uroce::engine {

/// The longest time that passes for the protocol from one turn of a poller to the next. What goes beyond it,
/// the poller was not turned: that does not count against a peer.
inline constexpr Duration kClockStepMax = milliseconds(5);

/// The process's monotonic clock. Read once per turn by the thread that makes it, never below `engine`.
inline Instant clock_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return {int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec};
}

}  // namespace uroce::engine
