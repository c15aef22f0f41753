#pragma once

#include <cstdint>

#include "base/threads/idle_limits.h"
#include "base/values/time.h"

namespace uroce {

/// What a thread does that has looked for work: look again at once, offer its CPU first, or sleep. The one
/// policy of dedicated pollers, of the background thread of inline ones (the host service has these two), of
/// NVMe-oF pollers, and of threads that wait for rdma_cm events. No clock, no thread: it is told what each
/// look found, and when; its numbers are in idle_limits.h.
///
/// After the last work a thread keeps its CPU for `spins`, and stays awake for `awake_for`. Then, and while
/// the application is at its pollers, each sleep is twice as long as the one before, because each look takes
/// a CPU from another thread; until a look finds something to do.
class IdlePolicy {
 public:
  /// What a thread does with its CPU while it is awake and finds nothing.
  enum class Awake : uint8_t {
    kSpin,   // keeps it
    kYield,  // offers it after each look
    kShare,  // offers it, and naps while another thread takes it for whole slices
  };
  struct Options {
    Awake awake = Awake::kSpin;
    Duration spins{};
    Duration awake_for{};
    Duration sleep = IdleLimits::kSleepMax;  // the first one after work
    Duration sleep_max = IdleLimits::kSleepMax;
  };

  struct Look {
    Instant now;
    /// When the first of the pollers that the application is at counts as left alone; kNever: it is at none.
    Instant due = kNever;
    uint32_t in_charge = 1;  // of how many pollers the thread was
    bool worked = false;     // there was something to do for one of these
    bool pending = false;    // something is under way whose end does not wake the thread
  };

  enum class Action : uint8_t {
    kPollAgain,  // there may be more at once
    kSpin,       // there may be more any moment: wait without a system call
    kYield,      // likewise, but offer the CPU first, and tell yielded()
    kNap,        // likewise, but another thread uses the CPU: sleep, not to be woken
    kSleep,      // sleep; nothing that the application does needs the thread earlier
    kPark,       // sleep until something happens
  };
  struct Decision {
    Action action;
    Duration duration{};  // of kNap, kSleep and kPark
  };

  explicit IdlePolicy(const Options& options) : options_(options), sleep_(options.sleep) {}

  /// Stays awake for ever.
  static IdlePolicy dedicated(Awake awake) { return IdlePolicy({.awake = awake, .awake_for = kForEver}); }
  /// Stays awake for `takeover`, after which a poller counts as left alone, or for a sleep.
  static IdlePolicy takes_over(Awake awake, Duration takeover);
  /// A poller of NVMe-oF, which sleeps after `idle` until a command comes.
  static IdlePolicy serves(Duration idle);
  /// Spins for `time`, and then sleeps until something happens.
  static IdlePolicy spins_for(Duration time) { return IdlePolicy({.awake_for = time}); }

  /// After how long a poller counts as left alone.
  [[nodiscard]] static Duration patience(Duration takeover, bool poll_awaits_processor);

  /// A look has ended.
  Decision after(const Look& look);
  /// The thread has offered its CPU at `before`, and has it again.
  void yielded(Instant before, Instant now);

 private:
  static constexpr Duration kForEver{INT64_MAX};

  [[nodiscard]] Decision stay_awake(Instant now) const;

  Options options_;
  Duration sleep_;             // the next one
  uint32_t in_charge_ = 0;     // at the last look
  Instant busy_at_{};          // when something was last done for one of those, or taken over
  Instant contended_until_{};  // another thread has taken the CPU for a slice
};

}  // namespace uroce
