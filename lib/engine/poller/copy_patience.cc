#include "engine/poller/copy_patience.h"

#include <algorithm>

#include "engine/platform/clock.h"

namespace uroce::engine {

void CopyPatience::begin() {
  last_ = clock_();
  waited_ = {};
  spin_ = {};
}

bool CopyPatience::wait() {
  if (!spin_.once()) return true;
  const Instant now = clock_();
  // A process that was stopped has not waited meanwhile.
  waited_ = waited_ + std::clamp(now - last_, Duration{}, kClockStepMax);
  last_ = now;
  return waited_ < kMax;
}

}  // namespace uroce::engine
