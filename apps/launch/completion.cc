#include "apps/launch/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "apps/launch/command_line.h"
#include "apps/launch/help_text.h"

namespace uroce::launch {
namespace {

void print(std::string_view candidate, std::string_view description) {
  fmt::print("{}\t{}\n", candidate, description.substr(0, description.find('\n')));
}

/// Prints the values that a type names ("auto, xdp or packet"), or kFiles if it is a file's.
void print_values(const std::string& type) {
  if (type.find("FILE") != std::string::npos || type.find("PATH") != std::string::npos) print(kFiles, "");
  if (type.find(" or ") == std::string::npos) return;
  std::istringstream words(type);
  for (std::string word; words >> word;) {
    if (word.ends_with(',')) word.pop_back();
    if (word != "or") print(word, "");
  }
}

/// The option that awaits a value behind `words`.
const CLI::Option* awaiting(const CLI::App& command, const Words& words) {
  for (size_t values = 0; values < words.size(); ++values) {
    const std::string& word = words[words.size() - 1 - values];
    if (!word.starts_with('-')) continue;
    const CLI::Option* const option = command.get_option_no_throw(word);
    return option != nullptr && static_cast<size_t>(option->get_items_expected_max()) > values ? option
                                                                                               : nullptr;
  }
  return nullptr;
}

void print_options(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) print("--" + name, option->get_description());
}

void print_positionals(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options())
    if (option->get_positional()) print_values(option->get_name(true));
}

}  // namespace

void print_completions(CLI::App& app, const Words& words) {
  if (words.empty()) return;
  const Called called = called_by(app, {words.begin(), words.end() - 1});
  const CLI::App& command = *called.command;
  const Words before(words.begin() + static_cast<ptrdiff_t>(called.words), words.end() - 1);
  const size_t options = count_options(command, before);
  const bool runs = command.get_option_no_throw("PROGRAM") != nullptr;
  if (!runs || options == before.size()) {
    if (const CLI::Option* const option = awaiting(command, before); option != nullptr)
      return print_values(value_name(*option));
    if (words.back().starts_with('-')) return print_options(command);
  }
  if (runs) {
    const bool marked = options < before.size() && before[options] == "--";
    return print(fmt::format("{} {}", kCommand, called.words + options + (marked ? 1 : 0)), "");
  }
  for (const CLI::App* one : command.get_subcommands([](const CLI::App*) { return true; }))
    print(one->get_name(), one->get_description());
  print_positionals(command);
}

}  // namespace uroce::launch
