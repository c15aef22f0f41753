// Beside the kernel a neighbour is resolved by the kernel, which an empty datagram to the neighbour's port
// "discard" triggers. That needs no capability, and the kernel alone knows routes and routers.
#include "engine/platform/discard_socket.h"

#include <linux/filter.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

namespace uroce::engine {
namespace {

constexpr uint16_t kRocePort = 4791;
constexpr uint16_t kDiscardPort = 9;

/// The open sockets. A forked child lets go of them, or it would keep the port when this process has died.
/// The lock is taken while the process forks.
struct OpenSockets {
  std::mutex mutex;
  std::set<int> descriptors;
};
OpenSockets& open_sockets() {
  static auto* sockets = new OpenSockets;  // never destroyed: a process may end with devices open
  return *sockets;
}

/// The program may have closed it, and given its number to something else.
void close_if_ours(int descriptor) {
  sockaddr_in6 address{};
  socklen_t length = sizeof address;
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) != 0) return;
  // Both families have the port at the same place.
  if (address.sin6_port == htons(kRocePort)) close(descriptor);
}

void let_go_in_children() {
  static const int registered =
      pthread_atfork([] { open_sockets().mutex.lock(); }, [] { open_sockets().mutex.unlock(); },
                     [] {
                       for (const int descriptor : open_sockets().descriptors) close_if_ours(descriptor);
                       open_sockets().mutex.unlock();
                     });
  (void)registered;
}

/// IPv4-mapped addresses are for IPv6 sockets.
socklen_t to_sockaddr(const Gid& address, int family, unsigned index, sockaddr_storage& to) {
  if (family == AF_INET) {
    sockaddr_in ipv4{};
    ipv4.sin_family = AF_INET;
    ipv4.sin_port = htons(kDiscardPort);
    std::memcpy(&ipv4.sin_addr, address.bytes.data() + 12, sizeof ipv4.sin_addr);
    std::memcpy(&to, &ipv4, sizeof ipv4);
    return sizeof ipv4;
  }
  sockaddr_in6 ipv6{};
  ipv6.sin6_family = AF_INET6;
  ipv6.sin6_port = htons(kDiscardPort);
  std::memcpy(&ipv6.sin6_addr, address.bytes.data(), sizeof ipv6.sin6_addr);
  if (IN6_IS_ADDR_LINKLOCAL(&ipv6.sin6_addr)) ipv6.sin6_scope_id = index;
  std::memcpy(&to, &ipv6, sizeof ipv6);
  return sizeof ipv6;
}

/// 0 or an errno.
int take_port(int socket, int family, const std::string& interface) {
  if (setsockopt(socket, SOL_SOCKET, SO_BINDTODEVICE, interface.c_str(),
                 static_cast<socklen_t>(interface.size() + 1)) != 0)
    return errno;
  // Thrown away where it arrives, before it is put into a queue.
  sock_filter nothing[] = {{BPF_RET | BPF_K, 0, 0, 0}};
  const sock_fprog filter{.len = 1, .filter = nothing};
  if (setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0) return errno;
  constexpr int kNo = 0;
  if (family == AF_INET6) setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &kNo, sizeof kNo);
  sockaddr_in6 any{};  // of IPv4, the beginning of it
  any.sin6_family = static_cast<sa_family_t>(family);
  any.sin6_port = htons(kRocePort);
  const socklen_t length = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  return bind(socket, reinterpret_cast<const sockaddr*>(&any), length) == 0 ? 0 : errno;
}

}  // namespace

Result<DiscardSocket> DiscardSocket::open(const std::string& interface, unsigned index) {
  let_go_in_children();
  OpenSockets& sockets = open_sockets();
  const std::lock_guard guard(sockets.mutex);
  int family = AF_INET6;
  int descriptor = ::socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0 && errno == EAFNOSUPPORT) {
    family = AF_INET;
    descriptor = ::socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  }
  if (descriptor < 0) return Error{errno, std::string("no socket: ") + std::strerror(errno)};
  if (const int failed = take_port(descriptor, family, interface); failed != 0) {
    close(descriptor);
    if (failed == EADDRINUSE) {
      return Error{EBUSY,
                   "UDP port 4791 is in use there: by another process of uroce, or by the kernel's own "
                   "RoCE (rdma_rxe)"};
    }
    return Error{failed, std::string("cannot take UDP port 4791: ") + std::strerror(failed)};
  }
  sockets.descriptors.insert(descriptor);
  return DiscardSocket(descriptor, family, index);
}

DiscardSocket::DiscardSocket(DiscardSocket&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)), family_(other.family_), index_(other.index_) {}

DiscardSocket::~DiscardSocket() {
  if (socket_ < 0) return;
  OpenSockets& sockets = open_sockets();
  const std::lock_guard guard(sockets.mutex);
  sockets.descriptors.erase(socket_);
  close_if_ours(socket_);
}

void DiscardSocket::solicit(const Gid& address) const {
  if (family_ == AF_INET && !address.is_ipv4()) return;
  sockaddr_storage to{};
  const socklen_t length = to_sockaddr(address, family_, index_, to);
  // Whether it goes or not is seen by what the kernel then knows.
  (void)sendto(socket_, nullptr, 0, MSG_DONTWAIT | MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&to),
               length);
}

}  // namespace uroce::engine
