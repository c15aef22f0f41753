// The background thread looks after pollers that no call turns; dedicated threads turn theirs for ever. What
// they do between two looks is IdlePolicy's to say. A thread keeps its CPU while it is awake only where CPUs
// are left for the application and for everything else (IdleLimits::may_keep_processors).
//
// A poller that is found in a turn counts as turned by the application, and oversleeping does not count
// against the application either. Taking over a busy application's poller for such a reason makes the next
// takeover more likely.
//
// While a thread of the application has yielded its CPU between two polls, a poller counts as left alone only
// after IdleLimits::kYieldedMax. That thread polls as soon as it has a CPU again; without the rule background
// threads did half of the work where programs outnumber CPUs (perf/run --only host).
//
// Threads do not wait by umonitor (rte_power_monitor()): it watches one address, and a poller is also woken
// by doorbells, commands, timers and other queues.
#include "engine/scheduling/poller_threads.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "engine/platform/processors.h"
#include "engine/scheduling/oversubscription.h"

namespace uroce::engine {

namespace {

static_assert(IdleLimits::kSleepMax < kClockStepMax);

/// Sleeps shall not be rounded up by the default slack, which is as long as the shortest of them.
void sleep_exactly() { prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(IdleLimits::kTimerSlack.ns)); }

/// Waits as a thread does that stays awake.
void wait_awake(IdlePolicy& policy, const IdlePolicy::Decision& decision) {
  if (decision.action == IdlePolicy::Action::kSpin) return __builtin_ia32_pause();
  if (decision.action == IdlePolicy::Action::kNap) return Parker::nap(decision.duration.ns);
  if (decision.action != IdlePolicy::Action::kYield) return;
  const Instant before = clock_now();
  sched_yield();
  policy.yielded(before, clock_now());
}

}  // namespace

Parker& PollerThreads::parker_of(const Configuration& configuration, uint16_t poller) {
  if (configuration.poller_mode == PollerMode::kInline) return parkers_.front();
  while (parkers_.size() <= poller) parkers_.emplace_back();
  return parkers_[poller];
}

Status PollerThreads::start(const Configuration& configuration, std::span<Poller* const> pollers,
                            const FrameEvents& frame_events) {
  for (const uint32_t core : configuration.cores) {
    if (!std::ranges::binary_search(allowed_processors(), core)) {
      return Error{EINVAL, fmt::format("poller.cores: this process may not use CPU {}", core)};
    }
  }
  pollers_.assign(pollers.begin(), pollers.end());
  idle_ = configuration.poller_idle;
  takeover_ = microseconds(configuration.takeover_us);
  if (!frame_events.descriptors.empty()) {
    Status status = frames_.start(frame_events, configuration.cores, [this] { frames_arrived(); });
    if (!status) return status;
  }
  if (configuration.poller_mode == PollerMode::kDedicated) return start_dedicated(configuration.cores);
  const bool keep = keep_processors(1, 1);
  auto thread = Thread::start("uroce-attend", configuration.cores, [this, keep] { attend(keep); });
  if (!thread) return thread.error();
  threads_.push_back(std::move(*thread));
  return {};
}

Status PollerThreads::start_dedicated(const std::vector<uint32_t>& cores) {
  // Without a list: the CPUs from the last one down, because programs tend to begin with the first.
  std::vector<uint32_t> on = cores;
  if (on.empty()) on.assign(allowed_processors().rbegin(), allowed_processors().rend());
  const bool keep = keep_processors(pollers_.size(), on.size());
  for (size_t i = 0; i < pollers_.size(); ++i) {
    const uint32_t core = on[i % on.size()];
    auto thread = Thread::start(fmt::format("uroce-poll-{}", i), std::span(&core, 1),
                                [this, i, keep] { turn_for_ever(i, keep); });
    if (!thread) {
      stop();
      return thread.error();
    }
    threads_.push_back(std::move(*thread));
  }
  return {};
}

bool PollerThreads::keep_processors(size_t threads, size_t cores) {
  return IdleLimits::may_keep_processors(threads, cores, allowed_processors().size());
}

IdlePolicy::Awake PollerThreads::awake(bool keep) const {
  if (idle_ == PollerIdle::kYield) return IdlePolicy::Awake::kYield;
  return idle_ == PollerIdle::kSpin || keep ? IdlePolicy::Awake::kSpin : IdlePolicy::Awake::kShare;
}

void PollerThreads::stop() {
  if (threads_.empty()) return frames_.stop();  // where they slept may be gone
  // Relaxed: the threads only need to see it some time; joining them orders the rest.
  stopping_.store(true, std::memory_order_relaxed);
  for (Parker& parker : parkers_) parker.wake();
  frames_.stop();
  for (Thread& thread : threads_) thread.join();
  threads_.clear();
}

void PollerThreads::abandon() {
  frames_.abandon();
  for (Thread& thread : threads_) thread.abandon();
  threads_.clear();
}

/// A turn of a poller whose thread sleeps when there is nothing to do, as those of the other pollers do: the
/// threads of pollers that it handed frames to are woken.
TurnOutcome PollerThreads::turn(size_t index, Instant now) {
  const TurnOutcome outcome = pollers_[index]->turn(now);
  for (uint64_t to = pollers_[index]->take_handed_to(); to != 0; to &= to - 1)
    parkers_[static_cast<size_t>(__builtin_ctzll(to))].nudge();
  return outcome;
}

void PollerThreads::turn_for_ever(size_t index, bool keep) {
  using Action = IdlePolicy::Action;
  sleep_exactly();
  if (!keep) prefer_short_slices();
  const bool sleeps = idle_ == PollerIdle::kInterrupt;
  Poller& poller = *pollers_[index];
  IdlePolicy policy =
      sleeps ? IdlePolicy::takes_over(awake(keep), takeover_) : IdlePolicy::dedicated(awake(keep));
  bool woken = false;
  while (!stopping_.load(std::memory_order_relaxed)) {
    const Instant now = clock_now();
    const TurnOutcome outcome = sleeps ? turn(index, now) : poller.turn(now);
    // After a turn of another thread, as of one that closes the device, there may be more.
    const bool was_woken = std::exchange(woken, false);
    const IdlePolicy::Decision decision =
        policy.after({.now = now,
                      .worked = outcome == TurnOutcome::kWorked || was_woken,
                      .pending = outcome == TurnOutcome::kBusy});
    if (decision.action == Action::kPark) {
      woken = rest(parkers_[index], std::min(decision.duration, poller.time_to_deadline()),
                   [&] { return turn(index, clock_now()) != TurnOutcome::kIdle; });
    } else {
      wait_awake(policy, decision);
    }
  }
}

template <typename FoundWork>
bool PollerThreads::rest(Parker& parker, Duration duration, FoundWork found_work) {
  if (duration <= Duration{}) return false;
  // In this order: a frame that comes too early to wake the thread is found by it.
  frames_.arm();
  return parker.park_unless(found_work, duration.ns);
}

/// The first frames after a rest need not wait until a thread has woken.
void PollerThreads::frames_arrived() {
  const Instant now = clock_now();
  if (parkers_.size() == 1) {
    for (Poller* poller : pollers_) poller->turn(now);
  } else {
    for (size_t i = 0; i < pollers_.size(); ++i) turn(i, now);
  }
  for (Parker& parker : parkers_) parker.wake();
}

void PollerThreads::attend(bool keep) {
  using Action = IdlePolicy::Action;
  sleep_exactly();
  prefer_short_slices();
  IdlePolicy policy = IdlePolicy::takes_over(awake(keep), takeover_);
  Instant awake_at = kNever;
  bool woken = false;
  while (!stopping_.load(std::memory_order_relaxed)) {
    const Instant now = clock_now();
    IdlePolicy::Look look = look_after(now, now - std::min(now, awake_at));
    look.worked |= std::exchange(woken, false);
    const IdlePolicy::Decision decision = policy.after(look);
    awake_at = kNever;
    if (decision.action == Action::kPark && idle_ == PollerIdle::kInterrupt) {
      const Duration duration = std::min(decision.duration, time_to_deadline(now));
      woken = rest(parker(), duration, [&] { return look_after(clock_now(), {}).worked; });
      if (!woken) awake_at = now + duration;
    } else if (decision.action == Action::kSleep || decision.action == Action::kPark) {
      awake_at = sleep(decision);
    } else {
      wait_awake(policy, decision);
    }
  }
}

IdlePolicy::Look PollerThreads::look_after(Instant now, Duration overslept) const {
  IdlePolicy::Look look{.now = now, .in_charge = 0};
  const Duration patience = IdlePolicy::patience(takeover_, poll_awaits_processor());
  for (Poller* poller : pollers_) {
    if (poller->turn_lease().take_wanted()) poller->turn_lease().note_application(now);
    Instant left_alone = poller->turn_lease().application_turned() + patience + overslept;
    if (now >= left_alone) {
      const TurnOutcome outcome = poller->turn(now);
      if (outcome != TurnOutcome::kBusy) {
        ++look.in_charge;
        look.worked |= outcome == TurnOutcome::kWorked;
        continue;
      }
      // The application is inside a turn that takes long.
      poller->turn_lease().note_application(now);
      left_alone = now + takeover_;
    }
    // It may be known earlier that no thread is about to poll.
    look.due = std::min({look.due, left_alone, now + IdleLimits::kSleepMax});
  }
  return look;
}

Instant PollerThreads::sleep(IdlePolicy::Decision decision) {
  const Instant now = clock_now();
  if (decision.action == IdlePolicy::Action::kSleep) {
    parker().park_until_woken(decision.duration.ns);
    return now + decision.duration;
  }
  const Duration duration = std::min(decision.duration, time_to_deadline(now));
  if (duration > takeover_) {
    (void)parker().park(duration.ns);
  } else {
    Parker::nap(duration.ns);
  }
  return now + duration;
}

Duration PollerThreads::time_to_deadline(Instant now) const {
  Duration least{INT64_MAX};
  for (Poller* poller : pollers_) {
    if (now >= poller->turn_lease().application_turned() + takeover_)
      least = std::min(least, poller->time_to_deadline());
  }
  return least;
}

}  // namespace uroce::engine
