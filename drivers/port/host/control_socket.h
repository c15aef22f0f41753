#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>

#include "base/process/descriptor.h"
#include "base/values/result.h"
#include "host/packet_socket.h"

namespace uroce::drivers {

/// Until when something is waited for.
using Deadline = std::chrono::steady_clock::time_point;
inline Deadline deadline_in(int milliseconds) {
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
}

/// One end of a conversation between a program and the service (host/control.h). Not owned: the descriptor.
class ControlSocket {
 public:
  explicit ControlSocket(int descriptor) : descriptor_(descriptor) {}

  /// EAGAIN: there is no room just now; EPIPE: the other end has gone. Waits for neither.
  Status send(const host::Message& message, std::span<const int> descriptors = {}) const;
  /// The next message; nullopt: there is none yet. ENOTCONN: the other end has gone; EPROTO: what came is no
  /// message. Descriptors that do not fit are closed.
  Result<std::optional<host::Datagram>> receive() const;
  /// The next message, waited for until then. Errors as above, and ETIMEDOUT.
  Result<host::Datagram> wait(Deadline deadline) const;

 private:
  int descriptor_;
};

/// Connects to the service at `path`. ENOENT, ECONNREFUSED: there is none; EACCES; EPERM: it is
/// another user's, in a place where any user can make one; ETIMEDOUT: it takes no more connections.
Result<Descriptor> connect_to(const std::string& path);

}  // namespace uroce::drivers
