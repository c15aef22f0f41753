#pragma once

#include <latch>
#include <memory>
#include <span>
#include <vector>

#include "base/process/forks.h"
#include "base/values/result.h"
#include "engine/configuration/configuration.h"
#include "engine/device/device.h"
#include "engine/device/link_watch.h"
#include "engine/device/statistics.h"
#include "engine/scheduling/poller_threads.h"

namespace uroce::engine {

/// Devices that are opened and closed together: both ends of a wire inside the process, or just one device;
/// and the threads that turn their pollers.
class DeviceGroup {
 public:
  /// `members` are indexes into the configuration's devices. EAL must run if a port needs it. Errors name the
  /// device.
  static Result<std::shared_ptr<DeviceGroup>> open(const Configuration& configuration,
                                                   std::span<const size_t> members);

  /// The threads have ended and the ports are closed when it returns.
  ~DeviceGroup();
  DeviceGroup(const DeviceGroup&) = delete;
  DeviceGroup& operator=(const DeviceGroup&) = delete;

  /// Counted down when the group has closed; outlives it.
  [[nodiscard]] std::shared_ptr<std::latch> closed() const { return closed_; }

  /// The device with that index in the configuration, which must be a member.
  [[nodiscard]] Device& device(size_t index);

  /// The process ends, or the library is unloaded, with the group open: threads end and ports close, in
  /// bounded time. Calls that come later find pollers that cannot be turned.
  void end();

 private:
  DeviceGroup() = default;
  Status add(const Configuration& configuration, size_t index);
  /// With PollerIdle::kInterrupt, what tells sleeping threads of frames; ENOTSUP: nothing does.
  [[nodiscard]] Result<FrameEvents> frame_events(const Configuration& configuration) const;
  /// Tools order nothing more of these devices.
  void take_no_orders() const;
  /// If the configuration asks for it. No poller is turned any more.
  void write_counters() const;
  /// A thread has left a turn in the middle.
  [[nodiscard]] bool has_lost_device() const;

  struct Member {
    size_t index;
    DeviceState* state;
    std::unique_ptr<Device> device;
  };

  PollerThreads threads_;
  std::vector<Member> members_;
  LinkWatch links_;
  Statistics statistics_;
  std::vector<uint32_t> lcores_;
  bool log_counters_ = false;
  bool dpdk_ = false;  // something of EAL's is open
  bool ended_ = false;
  const uint32_t forks_ = fork_count();  // when it was opened: a forked child leaves it as it lies
  const std::shared_ptr<std::latch> closed_ = std::make_shared<std::latch>(1);
};

}  // namespace uroce::engine
