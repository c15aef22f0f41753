#pragma once

#include <time.h>

#include "base/time.h"

namespace uroce::engine {

/// The process's monotonic clock. Read once per turn by whoever turns a poller, never below `engine`.
inline Instant clock_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return {int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec};
}

}  // namespace uroce::engine
