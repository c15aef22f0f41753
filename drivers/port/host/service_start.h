#pragma once

#include <string>

#include "base/values/result.h"

namespace uroce::drivers {

/// Starts the host service of this user, which ends by itself when no program has used it for a while, and
/// returns when programs can attach to it at `socket`. Errors are one line: ENOENT (uroce-serve is not where
/// it should be); EADDRINUSE: another one has the socket, which another process has just started, or which is
/// about to end; or what the service complained of.
Status start_service(const std::string& socket);

}  // namespace uroce::drivers
