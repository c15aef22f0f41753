#include "engine/scheduling/poller_threads.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>

#include "engine/platform/processors.h"
#include "engine/scheduling/oversubscription.h"

namespace uroce::engine {

namespace {

/// How a thread waits that found nothing to do, but expects something any moment. Where CPUs are many it
/// keeps its own. Where they are few it offers it to others; after another thread has taken it for a time
/// slice it sleeps instead for a while, because a sleeper is run as soon as it wakes.
class AwakeWait {
 public:
  void once() {
    if (!few_processors()) return __builtin_ia32_pause();
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

  Instant contended_until_{};
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
  if (threads_.empty()) return;  // where they slept may be gone
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
  AwakeWait wait;
  if (few_processors()) prefer_short_slices();
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (poller.turn(clock_now()) != TurnOutcome::kWorked) wait.once();
  }
}

void PollerThreads::attend() {
  using IdleAction = IdlePolicy::IdleAction;
  // Sleeps of tens of microseconds shall not be rounded up by the default slack of another fifty.
  prctl(PR_SET_TIMERSLACK, 1'000UL);
  prefer_short_slices();
  AwakeWait wait;
  IdlePolicy policy(takeover_);
  Instant awake_at = kNever;
  while (!stopping_.load(std::memory_order_relaxed)) {
    const Instant now = clock_now();
    const IdlePolicy::Decision decision = policy.after(look_after(now, now - std::min(now, awake_at)));
    awake_at = kNever;
    if (decision.action == IdleAction::kSpin) wait.once();
    if (decision.action == IdleAction::kSleep || decision.action == IdleAction::kPark)
      awake_at = sleep(decision);
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
    parker_.park_until_woken(decision.duration.ns);
    return now + decision.duration;
  }
  const Duration duration = std::min(decision.duration, time_to_deadline(now));
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
