#include "drivers/port/host/control_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace uroce::drivers {
namespace {

/// More than are expected, so that a message with too many is noticed by their number.
constexpr size_t kTaken = 8;

struct Ancillary {
  alignas(cmsghdr) std::byte bytes[CMSG_SPACE(sizeof(int) * kTaken)];
};

/// Descriptors that came with a message; what is not wanted is closed.
bool take_descriptors(msghdr& header, std::array<Descriptor, host::kDescriptorsMax>& to) {
  size_t count = 0;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t numbers = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < numbers; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(part) + i * sizeof(int), sizeof number);
      Descriptor descriptor(number);
      if (count < to.size()) to[count] = std::move(descriptor);
      ++count;
    }
  }
  return count <= to.size() && (header.msg_flags & MSG_CTRUNC) == 0;
}

}  // namespace

Status ControlSocket::send(const host::Message& message, std::span<const int> descriptors) const {
  const auto bytes = host::bytes_of(message);
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  Ancillary ancillary{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = &ancillary;
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  while (sendmsg(descriptor_, &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno == EINTR) continue;
    return Error{errno, std::strerror(errno)};
  }
  return {};
}

Result<std::optional<ReceivedMessage>> ControlSocket::receive() const {
  std::array<std::byte, sizeof(host::Message) + 1> bytes;
  iovec part{bytes.data(), bytes.size()};
  Ancillary ancillary{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = &ancillary;
  header.msg_controllen = sizeof ancillary;
  ssize_t length = 0;
  do {
    length = recvmsg(descriptor_, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (length < 0 && errno == EINTR);
  if (length < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::optional<ReceivedMessage>{};
  if (length < 0) return Error{ENOTCONN, "the other end has gone"};
  ReceivedMessage received;
  // An empty datagram, which cannot be told from the end, may have some, too.
  const bool expected = take_descriptors(header, received.descriptors);
  if (length == 0) return Error{ENOTCONN, "the other end has gone"};
  const auto message = host::parse_message(std::span(bytes).first(static_cast<size_t>(length)));
  if (!expected || !message) return Error{EPROTO, "what came is no message of this version"};
  received.message = *message;
  return std::optional(std::move(received));
}

Result<ReceivedMessage> ControlSocket::wait(Deadline deadline) const {
  for (;;) {
    auto received = receive();
    if (!received) return received.error();
    if (received->has_value()) return std::move(**received);
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    pollfd source{.fd = descriptor_, .events = POLLIN, .revents = 0};
    const int ready = left > 0 ? poll(&source, 1, static_cast<int>(left)) : 0;
    if (ready == 0) return Error{ETIMEDOUT, "the host service does not answer"};
    if (ready < 0 && errno != EINTR) return Error{errno, std::strerror(errno)};
  }
}

namespace {

/// Any user may make files in /tmp: a service there is this user's own, or the superuser's.
Status check_owner(const std::string& path, int descriptor) {
  ucred other{};
  socklen_t length = sizeof other;
  if (!path.starts_with("/tmp/") || getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &other, &length) != 0)
    return {};
  if (other.uid == geteuid() || other.uid == 0) return {};
  return Error{EPERM, "socket " + path + ": the service there is user " + std::to_string(other.uid) + "'s"};
}

}  // namespace

Result<Descriptor> connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    return Error{ENAMETOOLONG, "socket " + path + ": the path is empty or too long"};
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  Descriptor descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!descriptor) return Error{errno, std::string("socket: ") + std::strerror(errno)};
  // A service that accepts nothing has connect() wait when as many connections wait already as may.
  constexpr timeval kAtMost{.tv_sec = 5, .tv_usec = 0};
  const Deadline deadline = deadline_in(kAtMost.tv_sec * 1000);
  setsockopt(descriptor.number(), SOL_SOCKET, SO_SNDTIMEO, &kAtMost, sizeof kAtMost);
  const auto* const to = reinterpret_cast<const sockaddr*>(&address);
  int error = 0;
  do {
    error = connect(descriptor.number(), to, sizeof address) == 0 ? 0 : errno;
  } while (error == EINTR && std::chrono::steady_clock::now() < deadline);
  if (error == EAGAIN || error == EINTR)
    return Error{ETIMEDOUT, "socket " + path + ": the service takes no connection"};
  if (error != 0) return Error{error, "socket " + path + ": " + std::strerror(error)};
  if (Status status = check_owner(path, descriptor.number()); !status) return status.error();
  return descriptor;
}

}  // namespace uroce::drivers
