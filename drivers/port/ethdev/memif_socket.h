#pragma once

#include <string>

#include "base/result.h"
#include "drivers/port/ethdev/devargs.h"

namespace uroce::drivers {

/// The file under which a memif server listens (socket-abstract=no). Made before the device is probed: a file
/// that a dead server left is removed, since the driver would fail on it; a living server of another process
/// is an error. The file is removed when the last server of this process that uses it has closed.
class MemifSocket {
 public:
  /// Any net_memif device; clients and abstract sockets have no file and get an empty object.
  static Result<MemifSocket> claim(const Devargs& devargs);

  MemifSocket() = default;
  MemifSocket(MemifSocket&& other) noexcept;
  MemifSocket& operator=(MemifSocket&& other) noexcept;
  ~MemifSocket();

 private:
  explicit MemifSocket(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace uroce::drivers
