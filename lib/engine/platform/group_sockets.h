#pragma once

#include <vector>

#include "base/process/uninherited_descriptor.h"
#include "base/values/identifiers.h"

namespace uroce::engine {

/// Memberships of the kernel in multicast groups on one of its interfaces: the kernel reports them by IGMP
/// and MLD, answers queriers, and has the interface's MAC filter let the groups in. They end with the object,
/// and with the process, whose forked children do not have the sockets. One thread at a time.
class GroupSockets {
 public:
  explicit GroupSockets(unsigned index) : index_(index) {}
  GroupSockets(const GroupSockets&) = delete;
  GroupSockets& operator=(const GroupSockets&) = delete;

  /// 0, or the kernel's errno: EMFILE, ENODEV (the interface is gone), EAFNOSUPPORT (no such family).
  int join(const Gid& group);
  void leave(const Gid& group);

 private:
  /// The kernel has a limit of groups of one socket (net.ipv4.igmp_max_memberships, 20).
  struct Socket {
    UninheritedDescriptor descriptor;
    bool ipv4 = false;
    std::vector<Gid> groups = {};
  };
  int open_for(const Gid& group);

  const unsigned index_;
  std::vector<Socket> sockets_;
};

}  // namespace uroce::engine
