#include "engine/scheduling/poller_threads.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "engine/platform/processors.h"

namespace uroce::engine {

namespace {

Duration cpu_time(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

/// How a thread waits that found nothing to do, but expects something any moment. Where CPUs are many it
/// keeps its own. Where they are few it offers it to others; and while another thread wants it, it sleeps
/// instead, because a sleeper is run as soon as it wakes, one that yielded only when the other's time slice
/// has passed. But what comes at once, as it does from a peer that polls, is not worth a sleep.
class Expectation {
 public:
  void wait() {
    if (!few_processors()) return __builtin_ia32_pause();
    const Instant before = clock_now();
    if (!std::exchange(waiting_, true)) waiting_since_ = before;
    if (application_lacks_cpu(before)) note_crowd(before);
    if (before < crowded_until_) return before - waiting_since_ < kAtOnce ? __builtin_ia32_pause() : nap();
    sched_yield();
    const Instant after = clock_now();
    if (after - before > kYieldMax) note_crowd(after);
  }
  /// There was something.
  void fulfil() { waiting_ = false; }

 private:
  static constexpr Duration kAtOnce = microseconds(10);
  /// A longer yield: another thread spins, and runs until the scheduler's next tick. One that only looks in,
  /// as background threads do, takes less even in a virtual machine.
  static constexpr Duration kYieldMax = microseconds(200);
  // In a virtual machine a nap costs 25 us of CPU time, however short it is.
  static constexpr Duration kCrowdedNapMin = microseconds(50);
  static constexpr Duration kCrowdedNapMax = milliseconds(1);
  static constexpr Duration kCrowdedMin = milliseconds(1);  // before a yield is tried again
  static constexpr Duration kCrowdedMax = milliseconds(32);
  static constexpr Duration kLookEvery = milliseconds(1);

  /// A hiccup of the machine looks like a crowd, but does not come again at once.
  void note_crowd(Instant now) {
    const bool again = now - crowded_until_ < kCrowdedMax;
    crowded_for_ = again ? std::min(crowded_for_ * 2, kCrowdedMax) : kCrowdedMin;
    crowded_until_ = now + crowded_for_;
  }

  /// Sleeps as long as the thread ran since the last nap: one that used more than half of a CPU that two want
  /// is not run when it wakes, but at the scheduler's next tick, which is milliseconds away.
  void nap() {
    const Duration ran = cpu_time(CLOCK_THREAD_CPUTIME_ID);
    Parker::nap(std::clamp(ran - ran_, kCrowdedNapMin, kCrowdedNapMax).ns);
    ran_ = ran;
  }

  /// The yield does not tell when threads that lack a CPU wait for another CPU than ours: two processes whose
  /// applications spin on one, their background threads on the other. But an application that spins and has a
  /// CPU to itself uses all of the time, one that waits in the kernel none; what lies between wants more.
  bool application_lacks_cpu(Instant now) {
    if (now < look_at_) return false;
    const Duration used = cpu_time(CLOCK_PROCESS_CPUTIME_ID) - cpu_time(CLOCK_THREAD_CPUTIME_ID);
    const Duration share = used - used_;
    const Duration elapsed = now - looked_at_;
    used_ = used;
    looked_at_ = now;
    look_at_ = now + kLookEvery;
    return share * 16 > elapsed && share * 16 < elapsed * 15;
  }

  bool waiting_ = false;
  Instant waiting_since_{};
  Duration crowded_for_ = kCrowdedMin;
  Instant crowded_until_{};
  Instant looked_at_{};
  Instant look_at_{};
  Duration used_{};  // by the process's other threads
  Duration ran_{};   // by this thread, when it last napped
};

}  // namespace

Status PollerThreads::start(const Configuration& configuration, std::span<Poller* const> pollers) {
  for (const uint32_t core : configuration.cores) {
    if (!std::ranges::binary_search(allowed_processors(), core)) {
      return Error{EINVAL, fmt::format("poller.cores: this process may not use CPU {}", core)};
    }
  }
  pollers_.assign(pollers.begin(), pollers.end());
  if (configuration.poller_mode == PollerMode::kDedicated) return start_dedicated(configuration.cores);
  takeover_ = microseconds(configuration.takeover_us);
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
    Poller* poller = pollers_[i];
    const uint32_t core = on[i % on.size()];
    auto thread = Thread::start(fmt::format("uroce-poll-{}", i), std::span(&core, 1),
                                [this, poller] { turn_for_ever(*poller); });
    if (!thread) {
      stop();
      return thread.error();
    }
    threads_.push_back(std::move(*thread));
  }
  return {};
}

void PollerThreads::stop() {
  // Relaxed: the threads only need to see it some time; joining them orders the rest.
  stopping_.store(true, std::memory_order_relaxed);
  parker_.wake();
  for (Thread& thread : threads_) thread.join();
  threads_.clear();
}

void PollerThreads::abandon() {
  for (Thread& thread : threads_) thread.abandon();
  threads_.clear();
}

void PollerThreads::turn_for_ever(Poller& poller) const {
  Expectation expectation;
  if (few_processors()) prefer_short_slices();
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (poller.turn(clock_now()) == TurnOutcome::kWorked) {
      expectation.fulfil();
    } else {
      expectation.wait();
    }
  }
}

void PollerThreads::attend() {
  using IdleAction = IdlePolicy::IdleAction;
  // Sleeps of tens of microseconds shall not be rounded up by the default slack of another fifty.
  prctl(PR_SET_TIMERSLACK, 1'000UL);
  prefer_short_slices();
  Expectation expectation;
  IdlePolicy policy(takeover_);
  Instant awake_at = kNever;
  while (!stopping_.load(std::memory_order_relaxed)) {
    const Instant now = clock_now();
    const IdlePolicy::Decision decision = policy.after(look_after(now, now - std::min(now, awake_at)));
    awake_at = kNever;
    if (decision.action == IdleAction::kPollAgain) expectation.fulfil();
    if (decision.action == IdleAction::kSpin) expectation.wait();
    if (decision.action == IdleAction::kSleep || decision.action == IdleAction::kPark)
      awake_at = sleep(policy, decision);
  }
}

IdlePolicy::Look PollerThreads::look_after(Instant now, Duration overslept) const {
  IdlePolicy::Look look{.now = now, .due = kNever};
  for (Poller* poller : pollers_) {
    if (poller->attention().take_wanted()) poller->attention().note_application(now);
    Instant left_alone = poller->attention().application_turned() + takeover_ + overslept;
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
    look.due = std::min(look.due, left_alone);
  }
  return look;
}

Instant PollerThreads::sleep(const IdlePolicy& policy, IdlePolicy::Decision decision) {
  const Duration ran = cpu_time(CLOCK_THREAD_CPUTIME_ID);
  const Duration longest = policy.longest_sleep(ran - ran_);
  ran_ = ran;
  const Instant now = clock_now();
  if (decision.action == IdlePolicy::IdleAction::kSleep) {
    // takeover_us may be more.
    const Duration trusted = std::min(decision.duration, std::max(longest, takeover_));
    parker_.park_until_woken(trusted.ns);
    return now + trusted;
  }
  const Duration duration = std::min({decision.duration, longest, time_to_deadline(now)});
  if (duration > takeover_) {
    parker_.park(duration.ns);
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
