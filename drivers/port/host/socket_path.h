#pragma once

#include <string>

namespace uroce::drivers {

/// Where this process finds the host's service, and where a service listens unless told otherwise:
/// $UROCE_SERVICE; else the system's service, when its socket is there; else a place of the user's own.
std::string service_socket_path();

}  // namespace uroce::drivers
