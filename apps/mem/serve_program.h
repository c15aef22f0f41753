#pragma once

#include <cstdint>
#include <string>

namespace uroce::memory_export {

/// `uroce mem serve`: exports what the tables [[memory]] of the file say until SIGTERM or SIGINT. To be
/// called before the process has other threads, as it blocks these signals. Returns the exit status: 0; 1 or,
/// for a mistake in the file, 2 after one line on standard error.
int serve(const std::string& configuration_path, uint16_t port);

}  // namespace uroce::memory_export
