#include "engine/drive.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <cerrno>

#include "engine/processors.h"

namespace uroce::engine {

namespace {

Duration cpu_time(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

/// How a thread waits that found nothing to do, but expects something any moment. Where CPUs are many it
/// keeps its own. Where they are few it offers it to others; and while somebody else wants it, it sleeps
/// instead, because a sleeper is run as soon as it wakes, one that yielded only when the other's time slice
/// has passed.
class Expectation {
 public:
  void wait() {
    if (!few_processors()) return __builtin_ia32_pause();
    const Instant before = clock_now();
    if (application_lacks_cpu(before)) note_crowd(before);
    if (before < crowded_until_) return nap();
    sched_yield();
    const Instant after = clock_now();
    if (after - before > kYieldMax) note_crowd(after);
  }

 private:
  static constexpr Duration kYieldMax = microseconds(20);  // it takes longer: somebody else ran
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

  /// As long as we ran since the last one: who used more than half of a CPU that two want is not run when he
  /// wakes, but at the scheduler's next tick, which is milliseconds away.
  void nap() {
    const Duration ran = cpu_time(CLOCK_THREAD_CPUTIME_ID);
    Attendance::nap(std::clamp(ran - ran_, kCrowdedNapMin, kCrowdedNapMax).ns);
    ran_ = ran;
  }

  /// The yield does not tell when the ones who lack a CPU wait for another CPU than ours: two processes whose
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

  Duration crowded_for_ = kCrowdedMin;
  Instant crowded_until_{};
  Instant looked_at_{};
  Instant look_at_{};
  Duration used_{};  // by the process's other threads
  Duration ran_{};   // by this thread, when it last napped
};

}  // namespace

Status Drive::start(const Configuration& configuration, std::span<Poller* const> pollers) {
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

Status Drive::start_dedicated(const std::vector<uint32_t>& cores) {
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

void Drive::stop() {
  // Relaxed: the threads only need to see it some time; joining them orders the rest.
  stopping_.store(true, std::memory_order_relaxed);
  attendance_.wake();
  for (Thread& thread : threads_) thread.join();
  threads_.clear();
}

void Drive::abandon() {
  for (Thread& thread : threads_) thread.abandon();
  threads_.clear();
}

void Drive::turn_for_ever(Poller& poller) const {
  Expectation expectation;
  if (few_processors()) prefer_short_slices();
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (poller.turn(clock_now()) != TurnOutcome::kWorked) expectation.wait();
  }
}

void Drive::attend() {
  // Sleeps of tens of microseconds shall not be rounded up by the default slack of another fifty.
  prctl(PR_SET_TIMERSLACK, 1'000UL);
  prefer_short_slices();
  Expectation expectation;
  busy_at_ = clock_now();
  while (!stopping_.load(std::memory_order_relaxed)) {
    const Instant now = clock_now();
    const Instant due = look_after(now);
    const uint64_t works_before = works_seen_;
    works_seen_ = works();
    if (works_seen_ != works_before) busy_at_ = now;
    if (due > now || now - busy_at_ >= takeover_) {
      rest(now, due);
    } else if (works_seen_ == works_before) {
      expectation.wait();
    } else {
      looks_in_vain_ = 0;  // it was right to take over, and there may be more to do at once
    }
  }
}

Instant Drive::look_after(Instant now) {
  Instant due = kNever;
  for (Poller* poller : pollers_) {
    if (poller->application_waits()) poller->note_application(now);
    const Instant left_alone = poller->application_turned() + takeover_;
    if (now < left_alone) {
      due = std::min(due, left_alone);
    } else {
      poller->turn(now);
      due = now;
    }
  }
  return due;
}

void Drive::rest(Instant now, Instant due) {
  const Duration idle = now - busy_at_;
  if (idle < takeover_) return Attendance::nap(std::max(due - now, patience()).ns);
  Duration wanted =
      std::min({std::max(Duration{idle.ns / 4}, takeover_), longest_sleep(idle), time_to_deadline()});
  if (due > now) wanted = std::max(wanted, due - now);
  if (wanted > takeover_) {
    attendance_.sleep_deeply(wanted.ns);
  } else {
    Attendance::nap(wanted.ns);
  }
}

Duration Drive::longest_sleep(Duration idle) {
  const Duration ran = cpu_time(CLOCK_THREAD_CPUTIME_ID);
  const Duration wake_up = ran - ran_;
  ran_ = ran;
  return std::clamp(wake_up * (idle > kLongIdle ? kLongIdleShare : kIdleShare), kSleepMax, kDearSleepMax);
}

/// How long an application that has turned its pollers whenever we looked is trusted to go on with it. (Each
/// look takes its CPU away, for 25 us in a virtual machine.)
Duration Drive::patience() {
  constexpr uint32_t kLooksBeforeTrust = 8;
  if (++looks_in_vain_ <= kLooksBeforeTrust) return {};
  const uint32_t doublings = std::min(looks_in_vain_ - kLooksBeforeTrust, 16U);
  return std::min(takeover_ * (int64_t{1} << doublings), kSleepMax);
}

uint64_t Drive::works() const {
  uint64_t sum = 0;
  for (const Poller* poller : pollers_) sum += poller->works();
  return sum;
}

Duration Drive::time_to_deadline() const {
  Duration least{INT64_MAX};
  for (Poller* poller : pollers_) least = std::min(least, poller->time_to_deadline());
  return least;
}

}  // namespace uroce::engine
