#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace uroce::launch {

/// Exit status of a command that was called wrongly.
constexpr int kUsage = 2;

/// Parses `arguments`, which have no program's name before them. The exit status if that is all: after help
/// or the version, or after one line on standard error about what is wrong.
std::optional<int> parse(CLI::App& app, const std::vector<std::string>& arguments);
std::optional<int> parse(CLI::App& app, int argc, char** argv);

/// One line on standard error, after the names of the command and of that below it which was called. Returns
/// kUsage.
int complain(const CLI::App& app, const std::string& what);

}  // namespace uroce::launch
