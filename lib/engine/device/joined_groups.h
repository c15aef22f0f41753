#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "base/values/identifiers.h"

namespace uroce::engine {

/// The multicast groups of a device that its network knows of, so that frames to them come here: those with a
/// member among the queue pairs of this process, and those that are held for others. Control path, any
/// thread; calls wait for the network.
class JoinedGroups {
 public:
  /// Different groups at a time.
  static constexpr size_t kMax = 4096;

  /// What has frames to a group come to the device: its own link, the kernel, or the host's service. Called
  /// for one group at a time.
  struct Network {
    std::function<int(const Gid&)> join;  // 0 or an errno
    std::function<void(const Gid&)> leave;
  };
  /// `has_members` says whether a queue pair of this process is a member of the group now.
  JoinedGroups(Network network, std::function<bool(const Gid&)> has_members)
      : network_(std::move(network)), has_members_(std::move(has_members)) {}

  /// After a queue pair became a member of the group: 0, ENOMEM (kMax are joined), or the errno of the
  /// network.
  int join(const Gid& group);
  /// After queue pairs left groups: leaves those that are not wanted any more.
  void leave_unused();

  /// The group is wanted by one user more, which is none of this process's queue pairs. 0, or an errno as of
  /// join(): then it is not held.
  int hold(const Gid& group);
  /// Ends what hold() began.
  void release(const Gid& group);

 private:
  [[nodiscard]] bool is_wanted(const Gid& group) const {
    return held_.contains(group) || has_members_(group);
  }
  int join_wanted(const Gid& group);
  void leave_unwanted();
  void drop_hold(const Gid& group);

  const Network network_;
  const std::function<bool(const Gid&)> has_members_;
  std::mutex mutex_;  // held while the network is called, so that joins and leaves keep their order
  std::vector<Gid> joined_;
  std::map<Gid, size_t> held_;  // how often
};

}  // namespace uroce::engine
