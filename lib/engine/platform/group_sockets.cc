#include "engine/platform/group_sockets.h"

#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "base/process/cancellation.h"

namespace uroce::engine {
namespace {

/// The open sockets. A forked child closes them, or the memberships would outlive this process. The lock is
/// taken while the process forks.
struct OpenGroupSockets {
  std::mutex mutex;
  std::map<int, ino_t> descriptors;
};
OpenGroupSockets& open_group_sockets() {
  static auto* sockets = new OpenGroupSockets;  // never destroyed: a process may end with devices open
  return *sockets;
}

ino_t inode_of(int descriptor) {
  struct stat file {};
  return fstat(descriptor, &file) == 0 ? file.st_ino : 0;
}

/// The program may have closed it, and given its number to something else.
bool is_open(int descriptor, ino_t inode) { return inode != 0 && inode_of(descriptor) == inode; }

void close_in_children() {
  static const int registered =
      pthread_atfork([] { open_group_sockets().mutex.lock(); }, [] { open_group_sockets().mutex.unlock(); },
                     [] {
                       for (const auto& [descriptor, inode] : open_group_sockets().descriptors)
                         if (is_open(descriptor, inode)) close(descriptor);
                       open_group_sockets().descriptors.clear();
                       open_group_sockets().mutex.unlock();
                     });
  (void)registered;
}

/// 0 or an errno.
int change(int descriptor, unsigned index, const Gid& group, bool join) {
  if (group.is_ipv4()) {
    ip_mreqn request{};
    std::memcpy(&request.imr_multiaddr, group.bytes.data() + 12, sizeof request.imr_multiaddr);
    request.imr_ifindex = static_cast<int>(index);
    const int option = join ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP;
    return setsockopt(descriptor, IPPROTO_IP, option, &request, sizeof request) == 0 ? 0 : errno;
  }
  ipv6_mreq request{};
  std::memcpy(&request.ipv6mr_multiaddr, group.bytes.data(), sizeof request.ipv6mr_multiaddr);
  request.ipv6mr_interface = index;
  const int option = join ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP;
  return setsockopt(descriptor, IPPROTO_IPV6, option, &request, sizeof request) == 0 ? 0 : errno;
}

bool is_full(int error) { return error == ENOBUFS || error == ENOMEM; }

}  // namespace

void GroupSockets::close_socket(const Socket& socket) {
  if (!is_open(socket.descriptor, socket.inode)) return;
  close(socket.descriptor);
  open_group_sockets().descriptors.erase(socket.descriptor);
}

GroupSockets::~GroupSockets() {
  const CancellationDisabled held;
  const std::lock_guard guard(open_group_sockets().mutex);
  for (const Socket& socket : sockets_) close_socket(socket);
}

/// A socket more, for a group that the others have no room for.
int GroupSockets::open_for(const Gid& group) {
  const int family = group.is_ipv4() ? AF_INET : AF_INET6;
  const int descriptor = ::socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return errno;
  if (const int error = change(descriptor, index_, group, true); error != 0) {
    close(descriptor);
    return error;
  }
  const ino_t inode = inode_of(descriptor);
  open_group_sockets().descriptors[descriptor] = inode;
  sockets_.push_back({.descriptor = descriptor, .inode = inode, .ipv4 = group.is_ipv4(), .groups = {group}});
  return 0;
}

int GroupSockets::join(const Gid& group) {
  const CancellationDisabled held;  // under a lock
  close_in_children();
  const std::lock_guard guard(open_group_sockets().mutex);
  for (Socket& socket : sockets_) {
    if (socket.ipv4 != group.is_ipv4() || !is_open(socket.descriptor, socket.inode)) continue;
    const int error = change(socket.descriptor, index_, group, true);
    if (error == 0) socket.groups.push_back(group);
    if (!is_full(error)) return error;
  }
  return open_for(group);
}

void GroupSockets::leave(const Gid& group) {
  const CancellationDisabled held;  // under a lock
  const std::lock_guard guard(open_group_sockets().mutex);
  const auto socket = std::ranges::find_if(
      sockets_, [&](Socket& one) { return std::ranges::find(one.groups, group) != one.groups.end(); });
  if (socket == sockets_.end()) return;
  std::erase(socket->groups, group);
  // The interface may be gone, and the membership with it.
  if (is_open(socket->descriptor, socket->inode)) (void)change(socket->descriptor, index_, group, false);
  if (!socket->groups.empty()) return;
  close_socket(*socket);
  sockets_.erase(socket);
}

}  // namespace uroce::engine
