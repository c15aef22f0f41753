#pragma once

#include <string>

namespace uroce::serve {

/// `uroce status`: asks the service at `socket`, the default one if that is empty, what it does, and prints a
/// table, or what it answers as JSON. Returns the exit status, 1 after one line on standard error.
int show_status(const std::string& socket, bool json);

/// `uroce reload`: has the service read its configuration again. Likewise.
int reload(const std::string& socket);

}  // namespace uroce::serve
