#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

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

 protected:
  ~DeviceListener() = default;
};

/// Who wants to hear of a device's events. Any thread.
class DeviceListeners {
 public:
  void add(DeviceListener& listener) {
    const std::lock_guard guard(mutex_);
    all_.push_back(&listener);
  }
  /// It is not called any more after the return.
  void remove(DeviceListener& listener) {
    const std::lock_guard guard(mutex_);
    std::erase(all_, &listener);
  }
  void raise(DeviceEvent event) {
    const std::lock_guard guard(mutex_);
    for (DeviceListener* listener : all_) listener->raised(event);
  }

 private:
  std::mutex mutex_;
  std::vector<DeviceListener*> all_;
};

}  // namespace uroce::engine
