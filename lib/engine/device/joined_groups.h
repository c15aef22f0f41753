#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "base/identifiers.h"

namespace uroce::host {
class SharedDevice;
}

namespace uroce::engine {

/// The groups of a shared device that this process has joined with the host's service: those that have
/// members among its queue pairs. Control path, any thread; calls wait for the service.
class JoinedGroups {
 public:
  /// `device` is null where the device is not shared: then nothing happens. `has_members` says whether a
  /// queue pair of this process is a member of the group now.
  JoinedGroups(host::SharedDevice* device, std::function<bool(const Gid&)> has_members)
      : device_(device), has_members_(std::move(has_members)) {}

  /// After a queue pair became a member of the group: 0, or the errno of the service.
  int join(const Gid& group);
  /// After queue pairs left groups: leaves those that have no members.
  void leave_unused();

 private:
  host::SharedDevice* const device_;
  const std::function<bool(const Gid&)> has_members_;
  std::mutex mutex_;  // held while the service is called, so that joins and leaves keep their order
  std::vector<Gid> joined_;
};

}  // namespace uroce::engine
