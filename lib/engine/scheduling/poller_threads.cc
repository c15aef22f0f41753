// The background thread looks after pollers that no call turns; dedicated threads turn theirs for ever. On
// one or two CPUs AwakeWait yields instead of spinning, until a yield takes longer than kYieldMax because
// another thread spins. Then it sleeps for kNap at a time during kContended: a sleeper is run when it wakes,
// a yielding thread when the other's time slice has passed.
//
// A poller that is found in a turn counts as turned by the application, and oversleeping does not count
// against the application either. Taking over a busy application's poller for such a reason makes the next
// takeover more likely.
//
// While a thread of the application has yielded its CPU between two polls, a poller counts as left alone only
// after IdlePolicy::kYieldedMax. That thread polls as soon as it has a CPU again; without the rule background
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

/// How a thread waits that found nothing to do, but expects something any moment. Where CPUs are many it
/// keeps its own. Where they are few it offers it to others; after another thread has taken it for a time
/// slice it sleeps instead for a while, because a sleeper is run as soon as it wakes.
class AwakeWait {
 public:
  explicit AwakeWait(PollerIdle idle) : idle_(idle) {}

  void once() {
    if (idle_ == PollerIdle::kYield) return (void)sched_yield();
    if (idle_ == PollerIdle::kSpin || !few_processors()) return __builtin_ia32_pause();
    const Instant before = clock_now();
    if (before < contended_until_) return Parker::nap(kNap.ns);
    sched_yield();
    const Instant after = clock_now();
    if (after - before > kYieldMax) contended_until_ = after + kContended;
  }

 private:
  /// A longer yield: another thread spins. One that only looks in, as background threads do, takes less even
  /// in a virtual machine.
  static constexpr Duration kYieldMax = microseconds(200);
  static constexpr Duration kContended = milliseconds(32);  // before a yield is tried again
  static constexpr Duration kNap = microseconds(50);

  const PollerIdle idle_;
  Instant contended_until_{};
};

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
  auto thread = Thread::start("uroce-attend", configuration.cores, [this] { attend(); });
  if (!thread) return thread.error();
  threads_.push_back(std::move(*thread));
  return {};
}

Status PollerThreads::start_dedicated(const std::vector<uint32_t>& cores) {
  // Without a list: the CPUs from the last one down, because programs tend to begin with the first.
  std::vector<uint32_t> on = cores;
  if (on.empty()) on.assign(allowed_processors().rbegin(), allowed_processors().rend());
  for (size_t i = 0; i < pollers_.size(); ++i) {
    const uint32_t core = on[i % on.size()];
    auto thread = Thread::start(fmt::format("uroce-poll-{}", i), std::span(&core, 1), [this, i] {
      idle_ == PollerIdle::kInterrupt ? turn_and_rest(i) : turn_for_ever(*pollers_[i]);
    });
    if (!thread) {
      stop();
      return thread.error();
    }
    threads_.push_back(std::move(*thread));
  }
  return {};
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

void PollerThreads::turn_for_ever(Poller& poller) const {
  AwakeWait wait(idle_);
  if (few_processors()) prefer_short_slices();
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (poller.turn(clock_now()) != TurnOutcome::kWorked) wait.once();
  }
}

/// A turn of a poller whose thread sleeps when there is nothing to do, as those of the other pollers do: the
/// threads of pollers that it handed frames to are woken.
TurnOutcome PollerThreads::turn(size_t index, Instant now) {
  const TurnOutcome outcome = pollers_[index]->turn(now);
  for (uint64_t to = pollers_[index]->take_handed_to(); to != 0; to &= to - 1)
    parkers_[static_cast<size_t>(__builtin_ctzll(to))].nudge();
  return outcome;
}

void PollerThreads::turn_and_rest(size_t index) {
  using IdleAction = IdlePolicy::IdleAction;
  prctl(PR_SET_TIMERSLACK, 1'000UL);
  if (few_processors()) prefer_short_slices();
  Poller& poller = *pollers_[index];
  AwakeWait wait(idle_);
  IdlePolicy policy(takeover_);
  bool woken = false;
  while (!stopping_.load(std::memory_order_relaxed)) {
    const Instant now = clock_now();
    const bool worked = turn(index, now) != TurnOutcome::kIdle;
    const auto [action, duration] =
        policy.after({.now = now, .due = kNever, .in_charge = 1, .worked = worked || woken});
    woken = false;
    if (action == IdleAction::kSpin) wait.once();
    if (action != IdleAction::kPark) continue;
    woken = rest(parkers_[index], std::min(duration, poller.time_to_deadline()),
                 [&] { return turn(index, clock_now()) != TurnOutcome::kIdle; });
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

void PollerThreads::attend() {
  using IdleAction = IdlePolicy::IdleAction;
  // Sleeps of tens of microseconds shall not be rounded up by the default slack of another fifty.
  prctl(PR_SET_TIMERSLACK, 1'000UL);
  prefer_short_slices();
  AwakeWait wait(idle_);
  IdlePolicy policy(takeover_);
  Instant awake_at = kNever;
  bool woken = false;
  while (!stopping_.load(std::memory_order_relaxed)) {
    const Instant now = clock_now();
    IdlePolicy::Look look = look_after(now, now - std::min(now, awake_at));
    look.worked |= std::exchange(woken, false);
    const IdlePolicy::Decision decision = policy.after(look);
    awake_at = kNever;
    if (decision.action == IdleAction::kSpin) wait.once();
    if (decision.action == IdleAction::kPark && idle_ == PollerIdle::kInterrupt) {
      const Duration duration = std::min(decision.duration, time_to_deadline(now));
      woken = rest(parker(), duration, [&] { return look_after(clock_now(), {}).worked; });
      if (!woken) awake_at = now + duration;
    } else if (decision.action == IdleAction::kSleep || decision.action == IdleAction::kPark) {
      awake_at = sleep(decision);
    }
  }
}

IdlePolicy::Look PollerThreads::look_after(Instant now, Duration overslept) const {
  IdlePolicy::Look look{.now = now, .due = kNever};
  const Duration patience = IdlePolicy::patience(takeover_, poll_awaits_processor());
  for (Poller* poller : pollers_) {
    if (poller->attention().take_wanted()) poller->attention().note_application(now);
    Instant left_alone = poller->attention().application_turned() + patience + overslept;
    if (now >= left_alone) {
      const TurnOutcome outcome = poller->turn(now);
      if (outcome != TurnOutcome::kBusy) {
        ++look.in_charge;
        look.worked |= outcome == TurnOutcome::kWorked;
        continue;
      }
      // The application is inside a turn that takes long.
      poller->attention().note_application(now);
      left_alone = now + takeover_;
    }
    // It may be known earlier that no thread is about to poll.
    look.due = std::min({look.due, left_alone, now + IdlePolicy::kSleepMax});
  }
  return look;
}

Instant PollerThreads::sleep(IdlePolicy::Decision decision) {
  const Instant now = clock_now();
  if (decision.action == IdlePolicy::IdleAction::kSleep) {
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
    if (now >= poller->attention().application_turned() + takeover_)
      least = std::min(least, poller->time_to_deadline());
  }
  return least;
}

}  // namespace uroce::engine
