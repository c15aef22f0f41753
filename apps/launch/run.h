#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/configuration/configuration.h"

namespace uroce::launch {

/// Whether the program finds the devices also by their files in /sys/class/infiniband and /dev/infiniband,
/// where that is possible (device_files.h).
enum class ShowFiles : uint8_t { kNo, kYes };

/// Becomes `program` (searched in PATH, with arguments), which finds our verbs library first and this
/// configuration in its environment. Returns only when that fails: the exit status, after one line on
/// standard error.
int run(engine::Configuration configuration, const std::vector<std::string>& program, ShowFiles show);

}  // namespace uroce::launch
