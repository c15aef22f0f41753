#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/unit/service/running_service.h"

namespace uroce::testing {

/// A device on a wire of its own, with the address 192.0.2.`last` and a MAC of it.
inline engine::DeviceConfiguration device_at(std::string name, std::string port, uint8_t last) {
  engine::DeviceConfiguration device{.name = std::move(name), .port = std::move(port)};
  device.mac = MacAddress{{0x02, 0, 0, 0, 0, last}};
  device.addresses = {{Gid::from_ipv4({192, 0, 2, last}), 24}};
  return device;
}

/// A service whose configuration can be read again: it begins with `uroce0`, that of one_device().
class ReloadableService {
 public:
  ReloadableService() : service_({}, [this] { return next(); }) {}

  [[nodiscard]] const std::string& path() const { return service_.path(); }

  /// What the service says when it reads a configuration with these devices.
  host::Message reload(std::vector<engine::DeviceConfiguration> devices,
                       service::ServiceConfiguration settings = {}) {
    set_next(std::move(devices), std::move(settings));
    FakeProgram visitor(path());
    return visitor.ask(hello(host::MessageType::kReload));
  }
  /// What it will find when it reads its configuration.
  void set_next(std::vector<engine::DeviceConfiguration> devices,
                service::ServiceConfiguration settings = {}) {
    const std::lock_guard guard(mutex_);
    next_ = {.service = std::move(settings), .devices = one_device()};
    next_.devices.devices = std::move(devices);
  }

  [[nodiscard]] std::vector<std::string> devices() {
    std::vector<std::string> names;
    FakeProgram visitor(path());
    if (!visitor.send(hello(host::MessageType::kList))) return names;
    for (auto one = visitor.receive(); one && one->message.type != host::MessageType::kDone;
         one = visitor.receive()) {
      // Its addresses are behind it.
      if (one->message.type == host::MessageType::kDevice)
        names.emplace_back(host::text_of(one->message.name));
    }
    return names;
  }

 private:
  Result<service::Service::Configured> next() {
    const std::lock_guard guard(mutex_);
    return next_;
  }

  std::mutex mutex_;
  service::Service::Configured next_;
  RunningService service_;
};

inline engine::DeviceConfiguration first_device() { return one_device().devices.front(); }

}  // namespace uroce::testing
