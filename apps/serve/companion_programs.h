#pragma once

#include <string>
#include <vector>

#include "apps/serve/companions.h"
#include "base/values/result.h"
#include "service/configuration.h"

namespace uroce::serve {

/// What is to run beside a service with these settings: `uroce nvmf` for the key service.nvmf, `uroce mem
/// serve` for the tables [[memory]] of `file`. Without a file: nothing. The error names the file and its
/// line.
Result<std::vector<Companions::Program>> companion_programs(const std::string& file,
                                                            const service::ServiceConfiguration& settings);

}  // namespace uroce::serve
