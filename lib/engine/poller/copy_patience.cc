#include "engine/poller/copy_patience.h"

#include <sched.h>

#include <algorithm>

#include "engine/platform/clock.h"

namespace uroce::engine {

void CopyPatience::begin() {
  last_ = clock_();
  waited_ = {};
  looks_ = 0;
}

bool CopyPatience::wait() {
  if (++looks_ < kQuickLooks) {
    __builtin_ia32_pause();
    return true;
  }
  // An engine may be a thread that wants this CPU.
  sched_yield();
  const Instant now = clock_();
  // A process that was stopped has not waited meanwhile.
  waited_ = waited_ + std::clamp(now - last_, Duration{}, kClockStepMax);
  last_ = now;
  return waited_ < kMax;
}

}  // namespace uroce::engine
