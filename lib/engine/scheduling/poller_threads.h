#pragma once

#include <atomic>
#include <deque>
#include <span>
#include <vector>

#include "base/threads/idle_policy.h"
#include "base/values/result.h"
#include "engine/configuration/configuration.h"
#include "engine/platform/parker.h"
#include "engine/platform/thread.h"
#include "engine/poller/poller.h"
#include "engine/scheduling/frame_watch.h"

namespace uroce::engine {

/// The threads that turn pollers. *Dedicated*: one pinned thread for each poller, which does nothing else; it
/// keeps its CPU, offers it, or sleeps while there is nothing to do (PollerIdle).
/// *Inline*: the application's own calls turn the pollers, and one background thread for all of them takes
/// over where a poller was left alone for takeover_us (later the first time after the application was at it
/// for long: IdlePolicy). It goes on as long as there is work, gives way when the application comes
/// back, and sleeps longer and longer while nothing happens.
class PollerThreads {
 public:
  PollerThreads() = default;
  ~PollerThreads() { stop(); }
  PollerThreads(const PollerThreads&) = delete;
  PollerThreads& operator=(const PollerThreads&) = delete;

  /// Where the background thread sleeps, or the thread of the first poller.
  [[nodiscard]] Parker& parker() { return parkers_.front(); }
  /// Set-up: where the thread sleeps that turns the poller of this index within its device.
  [[nodiscard]] Parker& parker_of(const Configuration& configuration, uint16_t poller);

  /// `frame_events`: with PollerIdle::kInterrupt, what tells of frames.
  /// EINVAL names a core of the configuration that this process may not use; EAGAIN: no thread.
  Status start(const Configuration& configuration, std::span<Poller* const> pollers,
               const FrameEvents& frame_events);
  /// The threads have ended when this returns.
  void stop();
  /// In a forked child, where they do not exist.
  void abandon();

 private:
  Status start_dedicated(const std::vector<uint32_t>& cores);
  /// Whether `threads` of ours keep their CPUs while they find nothing (PollerIdle::kAuto), on `cores`.
  [[nodiscard]] static bool keep_processors(size_t threads, size_t cores);
  [[nodiscard]] IdlePolicy::Awake awake(bool keep) const;
  void turn_for_ever(size_t index, bool keep);
  TurnOutcome turn(size_t index, Instant now);
  /// Sleeps, with PollerIdle::kInterrupt, unless `found_work` finds something. True: the thread shall look
  /// again at once.
  template <typename FoundWork>
  bool rest(Parker& parker, Duration duration, FoundWork found_work);
  void frames_arrived();
  void attend(bool keep);
  /// One look at every poller: turns those that are left alone. By how much longer we slept than we wanted
  /// does not count against the application: it may be our waking up that took its CPU.
  IdlePolicy::Look look_after(Instant now, Duration overslept) const;
  /// Sleeps as `decision` says. Returns until when that was to last.
  Instant sleep(IdlePolicy::Decision decision);
  /// The time until the first deadline of the pollers that no other thread turns.
  [[nodiscard]] Duration time_to_deadline(Instant now) const;

  std::deque<Parker> parkers_{1};  // never moved; one, or one for each dedicated poller of a device
  FrameWatch frames_;
  PollerIdle idle_ = PollerIdle::kAuto;
  std::atomic<bool> stopping_{false};
  std::vector<Poller*> pollers_;
  std::vector<Thread> threads_;
  Duration takeover_{};  // inline, and of kInterrupt: how long a thread spins before it sleeps
};

}  // namespace uroce::engine
