#pragma once

#include <optional>

#include "base/values/identifiers.h"
#include "base/values/result.h"
#include "net/neighbours.h"

namespace uroce::engine {

class Device;
struct DeviceState;

/// What knows the addresses, routes and neighbours of a device that does not find them out itself: the
/// kernel, beside whose interface it stands, or the service whose device several programs share.
class AddressProvider : public net::Resolver {
 public:
  /// The device's address that `destination` is reached from. Any thread.
  [[nodiscard]] virtual std::optional<Gid> source_to(const Gid& destination) const = 0;

  /// Has frames to the multicast group come to the device: 0 or an errno. Any thread, one at a time.
  virtual int join(const Gid& group) = 0;
  virtual void leave(const Gid& group) = 0;

  /// From now until stop() the device's addresses follow, and what its neighbours ask is answered. EAGAIN: no
  /// thread.
  virtual Status start(Device& device, DeviceState& state) = 0;
  virtual void stop() = 0;
  /// Has the thread end, without waiting for that as stop() does: it may be waiting for a turn.
  virtual void ask_to_stop() = 0;
  /// In a forked child, where the thread does not exist.
  virtual void abandon() = 0;
};

}  // namespace uroce::engine
