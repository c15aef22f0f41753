#pragma once

#include <cstdint>
#include <functional>
#include <mutex>

#include "base/result.h"
#include "host/port_numbers.h"
#include "host/shared_device.h"

namespace uroce::rdmacm {

/// The ports that ids are bound to: those of the host, which its service keeps for all programs, where the
/// process has a device of the service; else those of the process alone. Calls of all three functions may
/// wait for the service, a few microseconds. Thread-safe.
class Ports {
 public:
  /// `shared` finds a device of the service; it returns null where there is none, and must not change its
  /// answer once a port is bound (but may return null in a forked child, which has no devices).
  Ports(uint64_t seed, std::function<host::SharedDevice*()> shared)
      : shared_(std::move(shared)), own_(seed) {}

  /// The port, for the id with this handle, which has none. EINVAL: it has one; EADDRINUSE: the port is
  /// another's; EADDRNOTAVAIL: none is left.
  Result<uint16_t> bind(uint64_t handle, const host::PortRequest& request);
  /// Keeps the id's port from being shared, for a listener. EADDRINUSE: others share it.
  Status claim(uint64_t handle);
  /// Gives up the id's port, if it has one.
  void release(uint64_t handle);

 private:
  const std::function<host::SharedDevice*()> shared_;
  std::mutex mutex_;
  host::PortNumbers own_;  // under the mutex
};

}  // namespace uroce::rdmacm
