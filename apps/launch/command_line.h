#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace uroce::launch {

/// Exit status of a command that was called wrongly.
constexpr int kUsage = 2;

using Words = std::vector<std::string>;

/// Called with what is wrong with a command line, which is also written to standard error.
using Listener = std::function<void(const std::string& complaint)>;

/// Parses `arguments`, which have no program's name before them. The exit status if that is all: after help,
/// the version or completions (completion.h), or after one line on standard error about what is wrong.
std::optional<int> parse(CLI::App& app, const Words& arguments, const Listener& also = {});
std::optional<int> parse(CLI::App& app, int argc, char** argv, const Listener& also = {});

/// One line on standard error, after the names of the command and of that below it which was called. Returns
/// kUsage.
int complain(const CLI::App& app, const std::string& what);

/// The command that `words` call, which is `app` or one below it, and how many of the words its name is.
struct Called {
  CLI::App* command;
  size_t words = 0;
};
Called called_by(CLI::App& app, const Words& words);

/// How many of `words`, which stand behind the name of `command`, are its options and their values: up to
/// "--" or the first word that is neither.
size_t count_options(const CLI::App& command, const Words& words);

}  // namespace uroce::launch
