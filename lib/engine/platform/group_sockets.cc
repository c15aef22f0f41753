#include "engine/platform/group_sockets.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace uroce::engine {
namespace {

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

/// A socket more, for a group that the others have no room for.
int GroupSockets::open_for(const Gid& group) {
  const int family = group.is_ipv4() ? AF_INET : AF_INET6;
  auto descriptor = UninheritedDescriptor::opened(
      [&] { return Descriptor(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); });
  if (!descriptor.ok()) return errno;
  if (const int error = change(descriptor.get(), index_, group, true); error != 0) return error;
  sockets_.push_back({.descriptor = std::move(descriptor), .ipv4 = group.is_ipv4(), .groups = {group}});
  return 0;
}

int GroupSockets::join(const Gid& group) {
  for (Socket& socket : sockets_) {
    if (socket.ipv4 != group.is_ipv4() || !socket.descriptor.is_open()) continue;
    const int error = change(socket.descriptor.get(), index_, group, true);
    if (error == 0) socket.groups.push_back(group);
    if (!is_full(error)) return error;
  }
  return open_for(group);
}

void GroupSockets::leave(const Gid& group) {
  const auto socket = std::ranges::find_if(
      sockets_, [&](Socket& one) { return std::ranges::find(one.groups, group) != one.groups.end(); });
  if (socket == sockets_.end()) return;
  std::erase(socket->groups, group);
  // The interface may be gone, and the membership with it.
  if (socket->descriptor.is_open()) (void)change(socket->descriptor.get(), index_, group, false);
  if (socket->groups.empty()) sockets_.erase(socket);
}

}  // namespace uroce::engine
