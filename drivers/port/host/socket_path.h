#pragma once

#include <string>

namespace uroce::drivers {

/// Where the host service listens: $UROCE_SERVICE; else the system's service, /run/uroce/service.sock, if
/// there is one; else this user's own, $XDG_RUNTIME_DIR/uroce/service.sock. Without that variable it is
/// /run/uroce/service.sock for root, and /tmp/uroce-UID/service.sock for others.
std::string service_socket_path();

}  // namespace uroce::drivers
