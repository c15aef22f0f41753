#pragma once

#include <string>
#include <vector>

namespace uroce::serve {

/// `uroce serve`: becomes uroce-serve, with these arguments. Returns only when that fails: the exit status,
/// after one line on standard error.
int become_service(const std::vector<std::string>& arguments);

/// `uroce status`: asks the service at `socket`, the default one if that is empty, what it does, and prints a
/// table, or what it answers as JSON. Returns the exit status, 1 after one line on standard error.
int show_status(const std::string& socket, bool json);

/// `uroce reload`: has the service read its configuration again. Likewise.
int reload(const std::string& socket);

}  // namespace uroce::serve
