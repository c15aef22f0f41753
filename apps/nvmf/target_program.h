#pragma once

#include <string>

namespace uroce::nvmf_target {

/// `uroce nvmf`: exports what [nvmf] of the file says until SIGTERM or SIGINT. SIGHUP reads the file again,
/// SIGUSR1 prints statistics. To be called before the process has other threads, as it blocks these signals.
/// Returns the exit status: 0, or 1 after one line on standard error.
int run(const std::string& configuration_path);

}  // namespace uroce::nvmf_target
