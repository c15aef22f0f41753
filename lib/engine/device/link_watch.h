#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <vector>

#include "base/values/result.h"
#include "base/values/time.h"
#include "engine/platform/parker.h"
#include "engine/platform/thread.h"

namespace uroce::engine {

struct DeviceState;

/// Raises the events of devices whose links go down, come up or vanish; with one that vanishes its queue
/// pairs end. Their pollers are told the speeds of links, too. Ports do not tell of their own accord, so a
/// thread looks now and then; there is none when no link can change.
class LinkWatch {
 public:
  static constexpr Duration kLookEvery = milliseconds(100);

  LinkWatch() = default;
  ~LinkWatch() { stop(); }
  LinkWatch(const LinkWatch&) = delete;
  LinkWatch& operator=(const LinkWatch&) = delete;

  /// The devices, which outlive the watch or its stop(). Their links are expected to stay as they are now.
  void add(DeviceState& device);
  /// Behind the start of the pollers' threads. EAGAIN: no thread. Does nothing without devices whose links
  /// can change.
  Status start();
  /// Looks at all links once. Called by the thread, or a test.
  void look();
  /// The thread has ended when this returns.
  void stop();
  /// In a forked child, where it does not exist.
  void abandon();

 private:
  struct Link {
    DeviceState* device;
    bool up;
    bool gone;
    uint32_t mbps = 0;  // that the pollers know
  };

  static void tell_speed(Link& link);

  std::vector<Link> links_;
  Parker sleep_;
  std::atomic<bool> stopping_{false};
  std::optional<Thread> thread_;
};

}  // namespace uroce::engine
