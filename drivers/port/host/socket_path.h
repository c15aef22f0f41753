#pragma once

#include <sys/types.h>

#include <string>

namespace uroce::drivers {

/// Where a user's own service is found.
struct ServicePlace {
  std::string socket;
  std::string passed_over = {};  // the folder that would have been taken, but is another user's; empty: none
};

/// Where this process finds the host's service, and where a service listens unless told otherwise:
/// $UROCE_SERVICE; else the system's service, when its socket is there; else a place of the user's own: in
/// $XDG_RUNTIME_DIR, or as own_service_place() says.
ServicePlace service_place();
std::string service_socket_path();

/// Without a folder for run-time files: uroce-UID in `shared`, where any user can make files. Where another
/// user has taken that name it is .uroce in `home`; so it is, too, where that is there already and the other
/// is not, for then a service may listen there. Without a home the name in `shared` is all there is, and is
/// refused by those that use it.
ServicePlace own_service_place(const std::string& shared, const std::string& home, uid_t user);

}  // namespace uroce::drivers
