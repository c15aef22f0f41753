#include "engine/drive.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>

#include "engine/processors.h"

namespace uroce::engine {

namespace {

/// A thread that found nothing to do, but expects something any moment.
void relax() {
  if (few_processors()) {
    sched_yield();
  } else {
    __builtin_ia32_pause();
  }
}

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
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (poller.turn(clock_now()) != TurnOutcome::kWorked) relax();
  }
}

void Drive::attend() {
  // Sleeps of tens of microseconds shall not be rounded up by the default slack of another fifty.
  prctl(PR_SET_TIMERSLACK, 1'000UL);
  busy_at_ = clock_now();
  while (!stopping_.load(std::memory_order_relaxed)) {
    const Instant now = clock_now();
    const Instant due = look_after(now);
    if (const uint64_t seen = works(); seen != works_seen_) {
      works_seen_ = seen;
      busy_at_ = now;
    }
    rest(now, due);
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
  if (idle < takeover_) {
    // Something is going on: where a poller is ours it is turned without a pause, else its time is waited
    // for.
    if (due <= now) {
      relax();
    } else {
      Attendance::nap((due - now).ns);
    }
    return;
  }
  const Duration longest = idle > kLongIdle ? kLongSleepMax : kSleepMax;
  Duration wanted = std::min({Duration{idle.ns / 4}, longest, time_to_deadline()});
  if (due > now) wanted = std::max(wanted, due - now);
  if (wanted > takeover_) {
    attendance_.sleep_deeply(wanted.ns);
  } else {
    Attendance::nap(wanted.ns);
  }
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
