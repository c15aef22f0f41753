#pragma once

#include <functional>
#include <memory>

#include "base/values/result.h"
#include "drivers/port/ethdev/memif/relay.h"
#include "drivers/port/kernel/devargs.h"

namespace uroce::drivers {

/// Our end of a memif's socket. The socket that the user names is ours; net_memif gets another one, which is
/// used for that alone, and between the two is a relay.
class MemifSocket {
 public:
  /// Replaces the socket in the arguments by the one for the driver. Servers of one socket share their end.
  /// Errors: the socket cannot be made.
  static Result<std::shared_ptr<MemifSocket>> make(Devargs& devargs);

  virtual ~MemifSocket() = default;
  MemifSocket(const MemifSocket&) = delete;
  MemifSocket& operator=(const MemifSocket&) = delete;

  /// Calls `make_device`, which has the driver make the device, in the way that suits, and returns what it
  /// returns: 0, or a negative errno.
  virtual int make_device(const std::function<int()>& make_device) { return make_device(); }

  // The rest, and the end of the object once start() was called, on EAL's interrupt thread.

  /// Calls `start_driver` in the moment that suits. Returns 0, or what kept the device from being started, as
  /// DPDK does.
  virtual int start(const std::function<int()>& start_driver) = 0;
  /// No more connections, if this was the last device. Its gate has been detached.
  virtual void retire() {}
  /// The device may be closed: false while the driver has yet to see a connection that was made to it.
  [[nodiscard]] virtual bool may_close() const { return true; }
  /// Before the device is closed.
  virtual void closing() {}

  /// After it.
  void closed() {
    if (relay_.empty()) relay_.cut();
  }

  MemifRelay& relay() { return relay_; }

 protected:
  MemifSocket() = default;
  MemifRelay relay_;
};

}  // namespace uroce::drivers
