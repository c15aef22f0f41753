#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/configuration.h"

namespace uroce::launch {

/// Exit statuses of a command that runs another, as shells have them.
constexpr int kCannotExecute = 126;
constexpr int kNotFound = 127;

/// The folder with our libibverbs.so.1: where it was installed, or beside this program in the build tree.
std::filesystem::path library_folder();

/// Becomes `program` (searched in PATH, with arguments), which finds our verbs library first and this
/// configuration in its environment. Returns only when that fails: the exit status, after one line on
/// standard error.
int run(const engine::Configuration& configuration, const std::vector<std::string>& program);

}  // namespace uroce::launch
