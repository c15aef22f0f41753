#pragma once

#include <string>

#include "base/values/result.h"
#include "drivers/port/kernel/devargs.h"

namespace uroce::drivers {

/// The file under which a server of memif (socket-abstract=no) or vhost listens. Claimed before the device is
/// probed: a file that a dead server left is removed, since the driver would fail on it; a living server of
/// another process is an error. The file is removed when the last server of this process that uses it has
/// closed.
class ServerSocket {
 public:
  /// Any device; those that serve no file get an empty object.
  static Result<ServerSocket> claim(const Devargs& devargs);

  ServerSocket() = default;
  ServerSocket(ServerSocket&& other) noexcept;
  ServerSocket& operator=(ServerSocket&& other) noexcept;
  ~ServerSocket();

 private:
  explicit ServerSocket(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace uroce::drivers
