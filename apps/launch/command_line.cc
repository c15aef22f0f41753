#include "apps/launch/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "apps/launch/completion.h"
#include "apps/launch/help_text.h"
#include "base/values/nearest_name.h"

namespace uroce::launch {
namespace {

std::string full_name(const CLI::App& command) {
  return (command.get_parent() == nullptr ? "" : full_name(*command.get_parent()) + " ") + command.get_name();
}

/// A complaint about a word that should be a command below `app` and is none.
std::optional<std::string> unknown_command(const CLI::App& app, const std::string& word) {
  const auto known = app.get_subcommands([](const CLI::App*) { return true; });
  if (known.empty() || word.starts_with('-')) return std::nullopt;
  std::string names = did_you_mean(word, known, &CLI::App::get_name);
  if (!names.empty()) return fmt::format("unknown command '{}'{}", word, names);
  for (const CLI::App* one : known)
    names += (names.empty() ? "" : one == known.back() ? " and " : ", ") + one->get_name();
  return fmt::format("unknown command '{}' (there are {})", word, names);
}

std::string unknown_option(const CLI::App& command, const std::string& word) {
  Words names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  const std::string near = word.starts_with("--") ? did_you_mean(word.substr(0, word.find('=')), names) : "";
  return fmt::format("unknown option or argument: {}{}", word, near);
}

}  // namespace

std::optional<int> parse(CLI::App& app, const Words& arguments, const Listener& also) {
  if (!arguments.empty() && arguments.front() == kComplete) {
    print_completions(app, {arguments.begin() + 1, arguments.end()});
    return 0;
  }
  const Called called = called_by(app, arguments);
  CLI::App& command = *called.command;
  command.formatter(std::make_shared<HelpText>());
  const auto fail = [&](const std::string& what) {
    fmt::print(stderr, "{}: {}\n", full_name(command), what);
    if (also) also(what);
    return kUsage;
  };
  if (called.words < arguments.size())
    if (const auto unknown = unknown_command(command, arguments[called.words])) return fail(*unknown);
  try {
    // CLI11 takes the last one first.
    app.parse(Words(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    const Words unknown = app.remaining(true);
    return fail(unknown.empty() ? error.what() : unknown_option(command, unknown.front()));
  }
  return std::nullopt;
}

std::optional<int> parse(CLI::App& app, int argc, char** argv, const Listener& also) {
  return parse(app, Words(argv + std::min(argc, 1), argv + argc), also);
}

int complain(const CLI::App& app, const std::string& what) {
  const CLI::App* command = &app;
  for (auto chosen = app.get_subcommands(); !chosen.empty(); chosen = command->get_subcommands())
    command = chosen.front();
  fmt::print(stderr, "{}: {}\n", full_name(*command), what);
  return kUsage;
}

Called called_by(CLI::App& app, const Words& words) {
  Called called{.command = &app};
  for (const std::string& word : words) {
    const auto next =
        called.command->get_subcommands([&](const CLI::App* one) { return one->get_name() == word; });
    if (next.empty()) break;
    called = {.command = next.front(), .words = called.words + 1};
  }
  return called;
}

size_t count_options(const CLI::App& command, const Words& words) {
  size_t at = 0;
  while (at < words.size() && words[at].size() > 1 && words[at].front() == '-' && words[at] != "--") {
    const size_t equals = words[at].find('=');
    const CLI::Option* const option = command.get_option_no_throw(words[at].substr(0, equals));
    const bool takes_next =
        option != nullptr && option->get_items_expected_max() > 0 && equals == std::string::npos;
    at += takes_next && at + 1 < words.size() && words[at + 1] != "--" ? 2 : 1;
  }
  return at;
}

}  // namespace uroce::launch
