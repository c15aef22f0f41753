#include "engine/device/service_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "drivers/port/host/host.h"
#include "drivers/port/kernel/carrier.h"

namespace uroce::engine {
namespace {

constexpr std::string_view kNamed = ",device=";

bool stands_for_all(const DeviceConfiguration& device) {
  return drivers::is_host(device.port) && device.port.find(kNamed) == std::string::npos;
}

DeviceNetwork network_of_served(const DeviceConfiguration& device) {
  DeviceNetwork network{.changes = true};
  const size_t at = device.port.find(kNamed);
  const auto served = drivers::devices_of_service(device.port);
  if (!served || at == std::string::npos) return network;
  const std::string rest = device.port.substr(at + kNamed.size());
  const auto its = std::ranges::find(*served, rest.substr(0, rest.find(',')), &drivers::ServiceDevice::name);
  if (its == served->end()) return network;
  network.interface = its->interface;
  network.addresses = its->addresses;
  return network;
}

DeviceNetwork network_of(const DeviceConfiguration& device) {
  if (drivers::is_host(device.port)) return network_of_served(device);
  if (!device.interface.empty()) return {.interface = device.interface, .addresses = {}, .changes = true};
  DeviceNetwork network{.interface = drivers::interface_of(device.port)};
  for (const InterfaceAddress& ours : device.addresses) network.addresses.push_back(ours.address);
  return network;
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

std::vector<DeviceNetwork> networks_of(const Configuration& configuration) {
  std::vector<DeviceNetwork> networks;
  for (const DeviceConfiguration& device : configuration.devices) networks.push_back(network_of(device));
  return networks;
}

}  // namespace uroce::engine
