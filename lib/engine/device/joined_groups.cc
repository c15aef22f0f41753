// The network learns of a multicast group with its first member and of its end with its last. On a port of
// our own that is IGMP and MLD of lib/net, on poller 0. Beside the kernel a socket makes the kernel a member.
// A program of a service asks the service, which holds the group for each of its programs. Cost: beside the
// kernel a descriptor for each 20 groups, and attaching fails where the kernel refuses the membership.
#include "engine/device/joined_groups.h"

#include <algorithm>
#include <cerrno>

namespace uroce::engine {

int JoinedGroups::join_wanted(const Gid& group) {
  // The member may have left again meanwhile.
  if (std::ranges::find(joined_, group) != joined_.end() || !is_wanted(group)) return 0;
  if (joined_.size() == kMax) return ENOMEM;
  if (const int error = network_.join(group); error != 0) return error;
  joined_.push_back(group);
  return 0;
}

void JoinedGroups::leave_unwanted() {
  std::erase_if(joined_, [&](const Gid& group) {
    if (is_wanted(group)) return false;
    network_.leave(group);
    return true;
  });
}

void JoinedGroups::drop_hold(const Gid& group) {
  const auto held = held_.find(group);
  if (held != held_.end() && --held->second == 0) held_.erase(held);
}

int JoinedGroups::join(const Gid& group) {
  const std::lock_guard guard(mutex_);
  return join_wanted(group);
}

void JoinedGroups::leave_unused() {
  const std::lock_guard guard(mutex_);
  leave_unwanted();
}

int JoinedGroups::hold(const Gid& group) {
  const std::lock_guard guard(mutex_);
  ++held_[group];
  const int error = join_wanted(group);
  if (error != 0) drop_hold(group);
  return error;
}

void JoinedGroups::release(const Gid& group) {
  const std::lock_guard guard(mutex_);
  drop_hold(group);
  if (!is_wanted(group) && std::erase(joined_, group) != 0) network_.leave(group);
}

}  // namespace uroce::engine
