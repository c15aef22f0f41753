#pragma once

#include "base/result.h"
#include "engine/configuration/configuration.h"

namespace uroce::engine {

/// The configuration with each device of the host's service named: a device whose port is "host" without
/// `device=` stands for all of them. Asks the service, which is started when it is not there and the port
/// names no socket. Without such a device nothing is asked.
Result<Configuration> with_service_devices(Configuration configuration);

}  // namespace uroce::engine
