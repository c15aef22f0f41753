#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "base/values/identifiers.h"

namespace uroce::engine {

/// What happens to a device as a whole.
enum class DeviceEvent : uint8_t {
  kPortActive,
  kPortError,  // its link is down
  kGidChange,  // addresses came or went
  kFatal,      // what was behind the port is gone and does not come back
};

/// Called by a thread of the engine's. Must not block, and must not call the device.
class DeviceListener {
 public:
  virtual void raised(DeviceEvent event) = 0;
  /// Another neighbour says that one of the device's addresses is its own; of each address once, in a turn.
  /// True: the program has been told, and no other listener needs to be.
  virtual bool contested(const Gid& /*address*/, MacAddress /*by*/) { return false; }

 protected:
  ~DeviceListener() = default;
};

/// The listeners of a device's events. Any thread.
class DeviceListeners {
 public:
  void add(DeviceListener& listener) {
    const std::lock_guard guard(mutex_);
    all_.push_back(&listener);
    std::erase_if(untold_, [&](const Conflict& one) { return listener.contested(one.address, one.by); });
  }
  /// The listener is not called any more after the return.
  void remove(DeviceListener& listener) {
    const std::lock_guard guard(mutex_);
    std::erase(all_, &listener);
  }
  void tell_conflict(const Gid& address, MacAddress by) {
    const std::lock_guard guard(mutex_);
    for (DeviceListener* listener : all_)
      if (listener->contested(address, by)) return;
    untold_.push_back({address, by});
  }
  void raise(DeviceEvent event) {
    const std::lock_guard guard(mutex_);
    for (DeviceListener* listener : all_) listener->raised(event);
  }

 private:
  std::mutex mutex_;
  std::vector<DeviceListener*> all_;
  struct Conflict {
    Gid address;
    MacAddress by;
  };
  std::vector<Conflict> untold_;  // what happened before there was a listener
};

}  // namespace uroce::engine
