#include "drivers/port/host/control_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "drivers/port/host/socket_owner.h"

namespace uroce::drivers {

Status ControlSocket::send(const host::Message& message, std::span<const int> descriptors) const {
  switch (host::send_message(descriptor_, message, descriptors)) {
    case host::Sent::kYes:
      return {};
    case host::Sent::kLater:
      return Error{EAGAIN, "the other end has not read what it was sent before"};
    case host::Sent::kNever:
      break;
  }
  return Error{EPIPE, "the other end has gone"};
}

Result<std::optional<host::Datagram>> ControlSocket::receive() const {
  host::Datagram datagram = host::receive_datagram(descriptor_);
  switch (datagram.kind) {
    case host::Datagram::Kind::kMessage:
      return std::optional(std::move(datagram));
    case host::Datagram::Kind::kNothing:
      return std::optional<host::Datagram>{};
    case host::Datagram::Kind::kEnd:
      return Error{ENOTCONN, "the other end has gone"};
    case host::Datagram::Kind::kGarbage:
      break;
  }
  return Error{EPROTO, "what came is no message of this version"};
}

Result<host::Datagram> ControlSocket::wait(Deadline deadline) const {
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

Result<Descriptor> connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    return Error{ENAMETOOLONG, "socket " + path + ": the path is empty or too long"};
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  Descriptor descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!descriptor.ok()) return Error{errno, std::string("socket: ") + std::strerror(errno)};
  // A service that accepts nothing has connect() wait when as many connections wait already as may.
  constexpr timeval kAtMost{.tv_sec = 5, .tv_usec = 0};
  const Deadline deadline = deadline_in(kAtMost.tv_sec * 1000);
  setsockopt(descriptor.get(), SOL_SOCKET, SO_SNDTIMEO, &kAtMost, sizeof kAtMost);
  const auto* const to = reinterpret_cast<const sockaddr*>(&address);
  int error = 0;
  do {
    error = connect(descriptor.get(), to, sizeof address) == 0 ? 0 : errno;
  } while (error == EINTR && std::chrono::steady_clock::now() < deadline);
  if (error == EAGAIN || error == EINTR)
    return Error{ETIMEDOUT, "socket " + path + ": the service takes no connection"};
  if (error != 0) return Error{error, "socket " + path + ": " + std::strerror(error)};
  if (Status status = check_owner(path, descriptor.get()); !status) return status.error();
  return descriptor;
}

}  // namespace uroce::drivers
