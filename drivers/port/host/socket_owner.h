#pragma once

// `uroce run` notes which file the socket of a service of root in /tmp is, before it enters its user
// namespace. In there root looks like every other foreign user, and any user may make a socket in /tmp. Cost:
// programs that were started before such a service was restarted do not find the new one.

#include <string>

#include "base/values/result.h"

namespace uroce::drivers {

/// Whether the service that a connection to `path` leads to may be trusted. Any user may make files in /tmp:
/// a service there is this user's own or the superuser's, else EPERM. In a user namespace, as those of `uroce
/// run`, the superuser looks like any other foreign user; there it is the one whose socket
/// see_service_socket() saw.
Status check_owner(const std::string& path, int connection);

/// To be called before the process enters a user namespace. If the socket of the service is the superuser's,
/// programs of the namespace will know it (UROCE_SERVICE_SEEN) as long as it is this very file.
void see_service_socket();

}  // namespace uroce::drivers
