#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/values/result.h"
#include "engine/configuration/configuration.h"

namespace uroce::service {

/// A device that is served, as far as a new configuration is compared with it.
struct ServedAs {
  const engine::DeviceConfiguration& configuration;
  bool gone = false;  // what was behind its port was taken away
};

/// What becomes of the devices when a configuration is read again. A device is known by its name; one that is
/// the same as before, and works, is in none of the lists. Indexes are of the new configuration's devices.
struct DevicePlan {
  std::vector<size_t> added;      // opened beside all that are served
  std::vector<size_t> replacing;  // opened when those in the way are closed
  std::vector<std::string>
      in_the_way;                    // names: they have the name, port, wire or interface of a replacing one
  std::vector<std::string> removed;  // names of the others that the new configuration does not have
};

/// Devices of one wire are opened together, so they stay together, or none of them does.
DevicePlan plan_devices(std::span<const ServedAs> served,
                        std::span<const engine::DeviceConfiguration> wanted);

/// Programs tell devices by their addresses. EEXIST names both devices.
Status check_addresses(std::span<const engine::DeviceConfiguration> devices);

/// The interface of the kernel that the device goes through is there, if it goes through one. ENODEV names
/// the device and the interface.
Status check_interface(const engine::DeviceConfiguration& device);

}  // namespace uroce::service
