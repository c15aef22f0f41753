// A thread naps where another one takes its CPU for whole slices, because the kernel runs a sleeper when it
// wakes, and a thread that yields when the other's slice has passed. Cost: a packet waits for the nap. It is
// only done where CPUs are too few for all that poll (IdleLimits::may_keep_processors).
//
// This stands in lib/base because NVMe-oF, which also runs on a real NIC, sees nothing of the engine.
#include "base/threads/idle_policy.h"

#include <algorithm>

namespace uroce {

IdlePolicy IdlePolicy::takes_over(Awake awake, Duration takeover) {
  const Duration time = std::min(takeover, IdleLimits::kSleepMax);
  return IdlePolicy({.awake = awake, .awake_for = time, .sleep = time});
}

IdlePolicy IdlePolicy::serves(Duration idle) {
  return IdlePolicy({.awake = Awake::kYield,
                     .spins = IdleLimits::kNextCommand,
                     .awake_for = std::max(idle, IdleLimits::kNextCommand),
                     .sleep = IdleLimits::kSleepWokenMax,
                     .sleep_max = IdleLimits::kSleepWokenMax});
}

Duration IdlePolicy::patience(Duration takeover, bool poll_awaits_processor) {
  return poll_awaits_processor ? std::max(takeover, IdleLimits::kYieldedMax) : takeover;
}

IdlePolicy::Decision IdlePolicy::after(const Look& look) {
  if (look.worked || look.in_charge > in_charge_) busy_at_ = look.now;
  in_charge_ = look.in_charge;
  if (look.worked) {
    sleep_ = options_.sleep;
    return {Action::kPollAgain};
  }
  if (look.pending || (in_charge_ != 0 && look.now - busy_at_ < options_.awake_for))
    return stay_awake(look.now);
  const Duration sleep = sleep_;
  sleep_ = std::min(sleep_ * 2, options_.sleep_max);
  if (look.due == kNever) return {Action::kPark, sleep};
  return {Action::kSleep, std::max(sleep, look.due - look.now)};
}

void IdlePolicy::yielded(Instant before, Instant now) {
  if (now - before > IdleLimits::kYieldBriefMax) contended_until_ = now + IdleLimits::kContended;
}

IdlePolicy::Decision IdlePolicy::stay_awake(Instant now) const {
  if (options_.awake == Awake::kSpin || now - busy_at_ < options_.spins) return {Action::kSpin};
  if (options_.awake == Awake::kShare && now < contended_until_) return {Action::kNap, IdleLimits::kNap};
  return {Action::kYield};
}

}  // namespace uroce
