#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/attendance.h"
#include "engine/configuration.h"
#include "engine/poller.h"
#include "engine/thread.h"

namespace uroce::engine {

/// The threads that turn pollers. *Dedicated*: one pinned thread for each poller, which does nothing else.
/// *Inline*: the application's own calls turn the pollers, and one background thread for all of them takes
/// over where a poller was left alone for takeover_us (up to kSleepMax the first time after the application
/// was at it for long). It goes on as long as there is work, gives way when the application comes back, and
/// sleeps longer and longer while nothing happens.
class Drive {
 public:
  /// The longest sleep bounds how long a packet waits for an idle process: kSleepMax, or as long as it takes
  /// for waking up to cost less than the idle share of a core. (In a virtual machine it costs 25 to 100 us.)
  /// kDearSleepMax lies below Poller::kAttentionGapMax, so that sleeping never slows the protocol's clock.
  static constexpr Duration kSleepMax = milliseconds(1);
  static constexpr Duration kDearSleepMax = milliseconds(4);
  static constexpr int64_t kIdleShare = 64;          // one 64th of a core,
  static constexpr int64_t kLongIdleShare = 128;     // and one 128th
  static constexpr Duration kLongIdle = seconds(1);  // after this

  Drive() = default;
  ~Drive() { stop(); }
  Drive(const Drive&) = delete;
  Drive& operator=(const Drive&) = delete;

  [[nodiscard]] Attendance& attendance() { return attendance_; }

  /// EINVAL names a core of the configuration that this process may not use; EAGAIN: no thread.
  Status start(const Configuration& configuration, std::span<Poller* const> pollers);
  /// The threads have ended when this returns.
  void stop();
  /// In a forked child, where they do not exist.
  void abandon();

 private:
  Status start_dedicated(const std::vector<uint32_t>& cores);
  void turn_for_ever(Poller& poller) const;
  void attend();
  /// One look at every poller: turns those that are left alone. When the next one will be.
  Instant look_after(Instant now);
  void rest(Instant now, Instant due);
  Duration longest_sleep(Duration idle);
  Duration patience();
  [[nodiscard]] uint64_t works() const;
  [[nodiscard]] Duration time_to_deadline() const;

  Attendance attendance_;
  std::atomic<bool> stopping_{false};
  std::vector<Poller*> pollers_;
  std::vector<Thread> threads_;
  // The background thread's own.
  Duration takeover_{};
  uint64_t works_seen_ = 0;
  uint32_t looks_in_vain_ = 0;  // in a row that found the application at it
  Instant busy_at_{};           // when something was last seen to happen
  Duration ran_{};              // CPU time of the thread at its last rest
};

}  // namespace uroce::engine
