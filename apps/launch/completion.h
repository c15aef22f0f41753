#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace uroce::launch {

/// The first argument of a command line that is to be completed: its words follow, the last of them
/// unfinished.
inline constexpr std::string_view kComplete = "--complete";

/// In place of a candidate: the shell completes names of files, or the command line that begins with the word
/// whose number follows (of `uroce run`).
inline constexpr std::string_view kFiles = ":files";
inline constexpr std::string_view kCommand = ":command";

/// Prints what the last of `words` may become, for completions of shells: a line for each candidate, with a
/// tab and its description. They are of the options that --help shows, so a shell's script has no names in
/// it.
void print_completions(CLI::App& app, const std::vector<std::string>& words);

}  // namespace uroce::launch
