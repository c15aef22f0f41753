#include "engine/scheduling/idle_policy.h"

#include <algorithm>

namespace uroce::engine {

IdlePolicy::Decision IdlePolicy::after(const Look& look) {
  if (look.worked || look.in_charge > in_charge_) busy_at_ = look.now;
  in_charge_ = look.in_charge;
  if (look.worked) {
    sleep_ = shortest_;
    return {IdleAction::kPollAgain, {}};
  }
  if (in_charge_ != 0 && look.now - busy_at_ < shortest_) return {IdleAction::kSpin, {}};
  const Duration sleep = sleep_;
  sleep_ = std::min(sleep_ * 2, kSleepMax);
  if (look.due == kNever) return {IdleAction::kPark, sleep};
  return {IdleAction::kSleep, std::max(sleep, look.due - look.now)};
}

}  // namespace uroce::engine
