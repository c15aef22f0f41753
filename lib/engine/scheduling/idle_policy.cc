#include "engine/scheduling/idle_policy.h"

#include <algorithm>

namespace uroce::engine {

IdlePolicy::Decision IdlePolicy::after(const Look& look) {
  const bool attended = look.due != kNever;
  // A poller that another thread turned may only have been between two long turns. But what there was to do
  // for it, or that no thread turns it at the second look either, shows that it was right to take over.
  if (look.worked || (!attended && look.in_charge == in_charge_)) {
    looks_in_vain_ = 0;
    attended_since_ = look.now;
  }
  attended_since_ = std::min(attended_since_, look.now);
  attended_ = look.now - attended_since_;
  if (look.worked || look.in_charge > in_charge_) busy_at_ = look.now;
  in_charge_ = look.in_charge;
  idle_ = look.now - busy_at_;
  if (in_charge_ == 0) return {IdleAction::kSleep, trusted_for(look)};
  if (look.worked) return {IdleAction::kPollAgain, {}};
  if (idle_ < takeover_) return {IdleAction::kSpin, {}};
  const Duration duration = std::max(Duration{idle_.ns / 4}, takeover_);
  if (!attended) return {IdleAction::kPark, duration};
  return {IdleAction::kSleep, std::min(duration, trusted_for(look))};
}

Duration IdlePolicy::trusted_for(const Look& look) {
  constexpr uint32_t kDoublingsMax = 16;
  looks_in_vain_ = std::min(looks_in_vain_ + 1, kLooksBeforeTrust + kDoublingsMax);
  const Duration until_due = look.due - look.now;
  if (looks_in_vain_ <= kLooksBeforeTrust) return until_due;
  return std::max(until_due, takeover_ * (int64_t{1} << (looks_in_vain_ - kLooksBeforeTrust)));
}

Duration IdlePolicy::longest_sleep(Duration cost) const {
  const Duration affordable = cost * (idle_ > kLongIdle ? kLongIdleShare : kIdleShare);
  return std::clamp(std::max(affordable, Duration{attended_.ns / kIdleShare}), kSleepMax, kDearSleepMax);
}

}  // namespace uroce::engine
