#pragma once

#include <cstddef>
#include <cstdint>

#include "base/values/time.h"

namespace uroce {

/// Every number by which a thread without work decides what to do: of IdlePolicy, of PollBackoff
/// (engine/scheduling/oversubscription.h), and of when another thread may turn a poller. Times of the
/// kernel's scheduler depend on its tick and slices, not on how many CPUs there are.
struct IdleLimits {
  // Awake after the last work. Spinning for as long as a wake-up costs is at most twice as dear as the best
  // choice (Karlin et al., "Empirical Studies of Competitive Spinning", SOSP 1991).

  /// The default of poller.takeover_us: how long a poller is left alone before the background thread turns
  /// it, and how long that thread, or one with poller.idle = "interrupt", stays awake. A wake-up: 30 to 60 us
  /// in virtual machines, a tenth of it on bare metal (perf/run --only idle).
  static constexpr Duration kTakeover = microseconds(50);
  /// A thread that waits for an event of rdma_cm turns pollers for so long: a wake-up at either end.
  static constexpr Duration kEventAnswer = kTakeover * 2;
  /// An NVMe-oF poller keeps its CPU for so long. The next command of a host that has one under way comes
  /// within it: a round trip and two turns, of microseconds each over a link without routers.
  static constexpr Duration kNextCommand = microseconds(20);
  /// An NVMe-oF poller offers its CPU for so long before it sleeps, by default: some times what an SSD's I/O
  /// takes (100 us), after which hosts send the next command. Chosen, not measured.
  static constexpr Duration kServedIdle = milliseconds(1);
  /// The far end of a wire inside the process is its own user's for so long after a turn. A user that polls
  /// comes back within a microsecond or two; one that is away longer has been preempted or has left.
  static constexpr Duration kOwnerAway = microseconds(20);

  // Asleep. Each sleep is twice as long as the one before.

  /// The longest sleep where frames wake no thread: it bounds how long a packet waits for an idle process. A
  /// look costs 20 to 40 us, half to one percent of a CPU. Less than engine::kClockStepMax (5 ms), so that
  /// sleeping never slows the protocol's clock.
  static constexpr Duration kSleepMax = milliseconds(4);
  /// The longest sleep where work wakes the sleeper, which only looks at its clocks. The finest of those is
  /// NVMe-oF's keep alive, in units of 100 ms: a fifth of it.
  static constexpr Duration kSleepWokenMax = milliseconds(20);
  /// By how much the kernel may lengthen a sleep, instead of its default of 50 us. That is a fiftieth of
  /// the shortest sleep.
  static constexpr Duration kTimerSlack = microseconds(1);

  // Another thread wants the CPU.

  /// The slice that our threads ask for: the least that Linux grants (kernel/sched/syscalls.c: 0.1 ms to
  /// 100 ms).
  static constexpr Duration kSliceAsked = microseconds(100);
  /// The longest slice of a thread that asked for none: Linux's base slice is 0.7 to 2.8 ms, and is looked at
  /// with each tick, of which there are mostly 250 a second.
  static constexpr Duration kSliceMax = milliseconds(4);
  /// After a yield that took longer another thread has run: alone it takes 0.2 to 0.3 us, in guests as well.
  static constexpr Duration kYieldAlone = microseconds(2);
  /// After a yield that took longer another thread spins: one of ours that only looks in has a shorter slice.
  static constexpr Duration kYieldBriefMax = kSliceAsked * 2;
  /// For so long after that a thread naps instead of yielding. The next yield may cost a whole slice: one
  /// part in nine of the time.
  static constexpr Duration kContended = kSliceMax * 8;
  /// A nap: as long as a poller is left alone, because it delays packets in the same way.
  static constexpr Duration kNap = kTakeover;
  /// A poller is left alone for so long while its thread has yielded the CPU between two polls: five full
  /// slices, or a turn of each of some dozen threads that yield, too (perf/run --only host).
  static constexpr Duration kYieldedMax = kSliceMax * 5;
  /// A thread that polled without work counts as one for one or two of these. It must have got a CPU again
  /// before it is forgotten, even if others beside it yield to each other: some times kYieldedMax.
  static constexpr Duration kEpoch = kSliceMax * 32;
  /// Empty polls in a row after which an application's thread counts as polling without work: 256 of 40 to
  /// 100 ns are 10 to 25 us, longer than an answer takes (kNextCommand).
  static constexpr uint32_t kEmptyPolls = 256;
  /// A thread whose yields let others run yields again after so many, which take as long as a yield.
  static constexpr uint32_t kEmptyPollsContended = kEmptyPolls / 16;

  /// Whether `threads` that look for work may keep a CPU each while they find none. They run on `cores`, and
  /// the process may use `processors`: one of these is for the application, and one for everything else.
  static constexpr bool may_keep_processors(size_t threads, size_t cores, size_t processors) {
    return threads <= cores && threads + 2 <= processors;
  }

  static_assert(kYieldAlone < kYieldBriefMax && kYieldBriefMax < kSliceMax);
  static_assert(kYieldedMax < kEpoch && kTakeover < kSleepMax);
};

}  // namespace uroce
