#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace uroce::engine {

/// What the background thread of inline pollers does between two looks at them: spin, sleep or park. No
/// clock, no thread: it is told what each look found, and when.
///
/// It spins as long as there is traffic at pollers that it was right to take over, and longer by `takeover`
/// or kSleepMax, whichever is less. Then, and while the application is at its pollers, each sleep is twice as
/// long as the one before, because each look takes a CPU from another thread; until a look finds something to
/// do.
class IdlePolicy {
 public:
  /// Bounds how long a packet waits for an idle process, and how long a poller is left alone the first time
  /// after the application was at it for long. Below kClockStepMax, so that sleeping never slows the
  /// protocol's clock.
  static constexpr Duration kSleepMax = milliseconds(4);

  /// After how long a poller counts as left alone while a thread of the application has yielded its CPU
  /// between two polls: in a time in which it gets one among some dozen others.
  static constexpr Duration kYieldedMax = milliseconds(20);

  [[nodiscard]] static constexpr Duration patience(Duration takeover, bool poll_awaits_processor) {
    return poll_awaits_processor ? std::max(takeover, kYieldedMax) : takeover;
  }

  struct Look {
    Instant now;
    /// When the first of the pollers that the application is at counts as left alone; kNever: it is at none.
    Instant due;
    uint32_t in_charge = 0;  // of how many pollers it was
    bool worked = false;     // there was something to do for one of these
  };

  enum class IdleAction : uint8_t {
    kPollAgain,  // there may be more at once
    kSpin,       // there may be more any moment: wait without sleeping, where CPUs allow that
    kSleep,      // sleep; nothing that the application does needs us earlier
    kPark,       // sleep until something happens
  };
  struct Decision {
    IdleAction action;
    Duration duration;  // of sleep
  };

  /// `takeover`: after how long a poller counts as left alone.
  explicit IdlePolicy(Duration takeover) : shortest_(std::min(takeover, kSleepMax)) {}

  Decision after(const Look& look);

 private:
  Duration shortest_;           // sleep
  Duration sleep_ = shortest_;  // the next one
  uint32_t in_charge_ = 0;      // at the last look
  Instant busy_at_{};           // when something was last done for one of those, or taken over
};

}  // namespace uroce::engine
