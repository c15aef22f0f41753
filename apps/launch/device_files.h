#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "engine/configuration/configuration.h"

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
  /// that it is an adapter with one Ethernet port, of what type its GIDs are, and its network interface.
  std::vector<TextFile> attributes;
  /// Character devices below /dev/infiniband.
  std::vector<std::string> nodes;
};

/// The files of the configured devices. EINVAL: a device has a name that no file can have.
Result<DeviceFiles> device_files(const engine::Configuration& configuration);

/// Whether the file system has all of them already.
bool are_present(const DeviceFiles& files);

}  // namespace uroce::launch
