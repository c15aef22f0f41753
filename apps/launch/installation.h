#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace uroce::launch {

/// Exit statuses of a command that runs another, as shells have them.
constexpr int kCannotExecute = 126;
constexpr int kNotFound = 127;

// Where the parts of uroce are, as seen from the file of the running program: an installation may be moved.
// In a build tree they lie where they were built.

/// The folder with our libibverbs.so.1.
std::filesystem::path library_folder();

/// "uroce", or a program that stands for one of its commands: "uroce-perf".
std::filesystem::path program_file(const std::string& name);

/// Becomes the program of a command of uroce, with these arguments. Returns only when that fails: the exit
/// status, after one line on standard error.
int become_command(const std::string& command, const std::vector<std::string>& arguments);

}  // namespace uroce::launch
