#include "engine/device/service_devices.h"

#include <fmt/format.h>

#include <cerrno>

#include "drivers/port/host/host.h"

namespace uroce::engine {
namespace {

bool stands_for_all(const DeviceConfiguration& device) {
  return drivers::is_host(device.port) && device.port.find(",device=") == std::string::npos;
}

}  // namespace

Result<Configuration> with_service_devices(Configuration configuration) {
  std::vector<DeviceConfiguration> devices;
  for (DeviceConfiguration& device : configuration.devices) {
    if (!stands_for_all(device)) {
      devices.push_back(std::move(device));
      continue;
    }
    const auto served = drivers::devices_of_service(device.port);
    if (!served) return served.error();
    if (served->empty()) return Error{ENODEV, "the host service has no device"};
    for (const drivers::ServiceDevice& one : *served) {
      DeviceConfiguration& named = devices.emplace_back(device);
      named.name = one.name;
      named.mac = one.mac;
      named.port = fmt::format("{},device={}", device.port, one.name);
    }
  }
  configuration.devices = std::move(devices);
  return configuration;
}

}  // namespace uroce::engine
