#pragma once

#include <string>
#include <vector>

#include "base/values/result.h"
#include "engine/configuration/configuration.h"
#include "engine/device/service_devices.h"

namespace uroce::launch {

/// A file with a text, by its path below some directory.
struct TextFile {
  std::string path;
  std::string text;
};

/// The files by which programs look for RDMA devices without asking libibverbs. Linux has them when a kernel
/// driver serves the device.
struct DeviceFiles {
  /// Below /sys/class: infiniband/NAME and infiniband_verbs/uverbsN, as far as a device never changes it:
  /// that it is an adapter with one Ethernet port, and of what type and network interface its GIDs are.
  std::vector<TextFile> attributes;
  /// Character devices below /dev/infiniband.
  std::vector<std::string> nodes;
};

/// The files of the configured devices, with the networks of these. EINVAL: a device has a name that no file
/// can have.
Result<DeviceFiles> device_files(const engine::Configuration& configuration,
                                 const std::vector<engine::DeviceNetwork>& networks);

/// Whether the file system has all of them already.
bool are_present(const DeviceFiles& files);

}  // namespace uroce::launch
