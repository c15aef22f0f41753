#pragma once

#include <cstdint>

#include "base/time.h"

namespace uroce::engine {

/// What the background thread of inline pollers does between two looks at them. No clock, no thread: it is
/// told what each look found, and when.
///
/// Where it was right to take a poller over it keeps looking as long as there is traffic, and `takeover`
/// longer; then it sleeps, longer and longer. Where the application is at its pollers whenever it looks, it
/// looks less and less often: each look takes a CPU from another thread.
class IdlePolicy {
 public:
  /// The longest sleep bounds how long a packet waits for an idle process, and how long a poller is left
  /// alone the first time after the application was at it for long: kSleepMax, or as long as it takes for
  /// waking up to cost less than the idle share of a core, or such a share of the time that the application
  /// has been at it. (In a virtual machine waking up costs 25 to 100 us, and the clock of the thread tells
  /// only a part of what it costs the application that was on that CPU.)
  /// kDearSleepMax lies below kClockStepMax, so that sleeping never slows the protocol's clock.
  static constexpr Duration kSleepMax = milliseconds(1);
  static constexpr Duration kDearSleepMax = milliseconds(4);
  static constexpr int64_t kIdleShare = 64;          // one 64th of a core,
  static constexpr int64_t kLongIdleShare = 128;     // and one 128th
  static constexpr Duration kLongIdle = seconds(1);  // after this
  static constexpr uint32_t kLooksBeforeTrust = 8;   // that find the application at it

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
  explicit IdlePolicy(Duration takeover) : takeover_(takeover) {}

  Decision after(const Look& look);

  /// The longest sleep after the last look, when the last one and what followed took so much CPU time.
  [[nodiscard]] Duration longest_sleep(Duration cost) const;

 private:
  /// How long the application may be left to itself.
  Duration trusted_for(const Look& look);

  Duration takeover_;
  uint32_t looks_in_vain_ = 0;       // in a row
  uint32_t in_charge_ = 0;           // at the last look
  Instant busy_at_{};                // when something was last done for one of those, or taken over
  Duration idle_{};                  // how long this was before the last look
  Instant attended_since_ = kNever;  // when it was last right to take over, or the first look
  Duration attended_{};              // how long this was before the last look
};

}  // namespace uroce::engine
