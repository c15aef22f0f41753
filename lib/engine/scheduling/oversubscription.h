#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/threads/idle_limits.h"
#include "base/values/time.h"

namespace uroce::engine {

/// How many of the process's threads, and of programs beside it, poll without work. Each reports itself once
/// in an epoch, so that no thread has to say that it stopped, and one that waits for a CPU all along still
/// counts for a while.
class IdlePollingThreads {
 public:
  /// Other programs of the host may poll, too: as many as share a device with this one, each by a thread at
  /// least. Any thread.
  void set_programs_beside(uint32_t count) {
    beside_.store(count, std::memory_order_relaxed);  // nothing but a number
  }

  /// `reported` is the calling thread's own, 0 at first. At least this many poll without work, it included.
  uint32_t report(Instant now, uint32_t& reported) {
    const auto epoch = static_cast<uint32_t>(now.ns / IdleLimits::kEpoch.ns) | 1u << 31;  // never 0
    uint64_t seen = word_.load(std::memory_order_relaxed);  // all of it: a count on which no data hangs
    const uint32_t beside = beside_.load(std::memory_order_relaxed);
    if (reported == epoch) return most_of(in_epoch(seen, epoch)) + beside;
    reported = epoch;
    uint64_t next = 0;
    do {
      next = in_epoch(seen, epoch) + 1;
    } while (!word_.compare_exchange_weak(seen, next, std::memory_order_relaxed));
    return most_of(next) + beside;
  }

  /// In a forked child, where the threads that were yielding do not exist.
  void forget() { yielding_.store(0, std::memory_order_relaxed); }  // the child has one thread

  // Around the calling thread's yield.
  void begin_yield() { yielding_.fetch_add(1, std::memory_order_relaxed); }  // nothing but a number
  void end_yield() { yielding_.fetch_sub(1, std::memory_order_relaxed); }
  /// A thread has given its CPU away between two polls, and polls again as soon as it has one. Any thread.
  [[nodiscard]] bool any_yields() const { return yielding_.load(std::memory_order_relaxed) != 0; }

 private:
  // The epoch in the upper half, how many reported in the one before it, and how many in it.
  static constexpr uint64_t kBefore = 16;
  static constexpr uint64_t kCount = 0xFFFF;

  static uint64_t in_epoch(uint64_t word, uint32_t epoch) {
    const auto of = static_cast<uint32_t>(word >> 32);
    const uint64_t count = word & kCount;
    if (of == epoch) return count == kCount ? word - 1 : word;
    return uint64_t{epoch} << 32 | (of + 1 == epoch ? count << kBefore : 0);
  }
  static uint32_t most_of(uint64_t word) {
    return static_cast<uint32_t>(std::max(word & kCount, word >> kBefore & kCount));
  }

  std::atomic<uint64_t> word_{0};
  std::atomic<uint32_t> beside_{0};
  std::atomic<uint32_t> yielding_{0};
};

/// The idle policy of an application's thread: what it does about its polls that find nothing. It counts
/// polls, because a clock in each would cost, and never sleeps, because the thread is not ours. A thread that
/// has a CPU to itself keeps polling. Where more threads poll without work than CPUs are there for them, one
/// of the others holds the poller, or has what it waits for, and does not run: then it gives its CPU away.
class PollBackoff {
 public:
  void found() { count_ = 0; }
  /// Notes an empty poll. True: back_off() is due.
  bool nothing() { return ++count_ >= patience_; }

  /// `Machine` has now(), processors(), which are those of the calling thread, and yield().
  template <typename Machine>
  void back_off(IdlePollingThreads& threads, Machine machine) {
    count_ = 0;
    const Instant before = machine.now();
    const uint32_t reported = reported_;
    const uint32_t others = threads.report(before, reported_);
    if (reported_ != reported) processors_ = machine.processors();
    if (others <= processors_) {
      patience_ = IdleLimits::kEmptyPolls;
      return;
    }
    threads.begin_yield();
    machine.yield();
    threads.end_yield();
    const bool others_ran = machine.now() - before > IdleLimits::kYieldAlone;
    patience_ =
        others_ran ? IdleLimits::kEmptyPollsContended : std::min(2 * patience_, IdleLimits::kEmptyPolls);
  }

 private:
  uint32_t count_ = 0;
  uint32_t patience_ = IdleLimits::kEmptyPolls;
  uint32_t reported_ = 0;
  uint32_t processors_ = 0;
};

/// The calling thread's back-off. initial-exec: written with every poll.
extern constinit thread_local PollBackoff poll_backoff __attribute__((tls_model("initial-exec")));

/// Tells this process's IdlePollingThreads of programs beside it.
void set_programs_beside(uint32_t count);

/// In a forked child: its parent's threads are not its own.
void forget_polling_threads();

/// Whether one of this process's threads polls again as soon as it has a CPU. Any thread.
[[nodiscard]] bool poll_awaits_processor();

/// The calling thread has polled and found something, or not.
void back_off();
inline void note_poll(bool found) {
  if (found) return poll_backoff.found();
  if (poll_backoff.nothing()) [[unlikely]]
    back_off();
}

}  // namespace uroce::engine
