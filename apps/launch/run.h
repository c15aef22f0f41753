#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/configuration/configuration.h"

namespace uroce::launch {

/// Exit statuses of a command that runs another, as shells have them.
constexpr int kCannotExecute = 126;
constexpr int kNotFound = 127;

/// The folder with our libibverbs.so.1: where it was installed, or beside this program in the build tree.
std::filesystem::path library_folder();

/// Whether the program finds the devices also by their files in /sys/class/infiniband and /dev/infiniband,
/// where that is possible (device_files.h).
enum class ShowFiles : uint8_t { kNo, kYes };

/// Becomes `program` (searched in PATH, with arguments), which finds our verbs library first and this
/// configuration in its environment. Returns only when that fails: the exit status, after one line on
/// standard error.
int run(engine::Configuration configuration, const std::vector<std::string>& program, ShowFiles show);

}  // namespace uroce::launch
