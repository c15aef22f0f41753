#pragma once

#include <string>
#include <vector>

#include "base/values/identifiers.h"
#include "base/values/result.h"
#include "engine/configuration/configuration.h"

namespace uroce::engine {

/// The configuration with each device of the host's service named: a device whose port is "host" without
/// `device=` stands for all of them. Asks the service, which is started when it is not there and the port
/// names no socket. Without such a device nothing is asked.
Result<Configuration> with_service_devices(Configuration configuration);

/// What is known of a device's GIDs before it is opened.
struct DeviceNetwork {
  std::string interface;       // the kernel's that it stands beside or goes through; empty: none
  std::vector<Gid> addresses;  // behind the link-local one of its MAC, in the order of their GIDs
  bool changes = false;        // addresses come and go
};

/// The networks of the configured devices, in their order. Asks the service about those that it serves and
/// that are named; what it does not say is left out.
std::vector<DeviceNetwork> networks_of(const Configuration& configuration);

}  // namespace uroce::engine
