#include "apps/launch/command_line.h"

#include <fmt/format.h>

#include <algorithm>

namespace uroce::launch {
namespace {

/// A complaint about a first word that should be a command of `app` and is none.
std::optional<std::string> unknown_command(const CLI::App& app, const std::vector<std::string>& words) {
  const auto known = app.get_subcommands([](const CLI::App*) { return true; });
  if (known.empty() || words.empty() || words.front().starts_with('-') ||
      std::ranges::find(known, words.front(), &CLI::App::get_name) != known.end())
    return std::nullopt;
  std::string names;
  for (const CLI::App* one : known)
    names += (names.empty() ? "" : one == known.back() ? " and " : ", ") + one->get_name();
  return fmt::format("unknown command '{}' (there are {})", words.front(), names);
}

}  // namespace

std::optional<int> parse(CLI::App& app, const std::vector<std::string>& arguments) {
  if (const auto unknown = unknown_command(app, arguments)) return complain(app, *unknown);
  try {
    // CLI11 takes the last one first.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ExtrasError&) {
    const std::vector<std::string> unknown = app.remaining(true);
    return complain(app,
                    fmt::format("unknown option or argument: {}", unknown.empty() ? "" : unknown.front()));
  } catch (const CLI::ParseError& error) {
    return complain(app, error.what());
  }
  return std::nullopt;
}

std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  return parse(app, std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
}

int complain(const CLI::App& app, const std::string& what) {
  std::string command = app.get_name();
  for (auto chosen = app.get_subcommands(); !chosen.empty(); chosen = chosen.front()->get_subcommands())
    command += " " + chosen.front()->get_name();
  fmt::print(stderr, "{}: {}\n", command, what);
  return kUsage;
}

}  // namespace uroce::launch
