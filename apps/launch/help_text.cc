#include "apps/launch/help_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>
#include <vector>

namespace uroce::launch {
namespace {

constexpr size_t kNameColumns = 24;

/// `text` in lines that begin with `indent` spaces. A word that is longer than a line stays whole.
std::string wrapped(std::string_view text, size_t indent) {
  std::string out;
  size_t column = 0;
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word; column += word.size()) {
    if (column != 0 && column + 1 + word.size() <= kHelpColumns) {
      out += ' ';
      ++column;
    } else {
      out += (column == 0 ? "" : "\n") + std::string(indent, ' ');
      column = indent;
    }
    out += word;
  }
  return out + "\n";
}

/// Paragraphs are wrapped. Lines that begin with a space stay as they are, and those that end with a colon
/// alone.
std::string wrapped_paragraphs(const std::string& text) {
  std::string out;
  std::string paragraph;
  const auto end_paragraph = [&] {
    if (!paragraph.empty()) out += wrapped(paragraph, 0);
    paragraph.clear();
  };
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == ' ') {
      end_paragraph();
      out += line + "\n";
      continue;
    }
    paragraph += line + " ";
    if (line.back() == ':') end_paragraph();
  }
  end_paragraph();
  return out;
}

std::string row(const std::string& name, std::string_view text) {
  const std::string left = "  " + name;
  if (text.empty()) return left + "\n";
  const std::string right = wrapped(text, kNameColumns + 2);
  if (left.size() >= kNameColumns + 2) return wrapped(left, 2) + right;
  return left + right.substr(left.size());
}

/// CLI11 puts what a value is checked for behind its name: "N:UINT in [1 - 16384]", "BYTES:{256,512}".
size_t end_of_name(std::string_view type) {
  size_t end = type.size();
  for (const std::string_view check :
       {":UINT in [", ":INT in [", ":FLOAT in [", ":POSITIVE", ":SIZE [", ":{"})
    end = std::min(end, type.find(check));
  return end;
}

/// What a value of `type` is checked for, in words: " (1 to 16384)".
std::string value_limits(std::string_view type) {
  constexpr size_t kDigitsMax = 10;  // a limit with more is none
  std::string_view check = type.substr(end_of_name(type));
  if (check.starts_with(":{")) return fmt::format(" ({})", check.substr(2, check.find('}') - 2));
  const size_t begin = check.find(" in [");
  const size_t between = check.find(" - ");
  if (begin == check.npos || between == check.npos) return {};
  const std::string_view least = check.substr(begin + 5, between - begin - 5);
  const std::string_view most = check.substr(between + 3, check.find(']') - between - 3);
  return most.size() > kDigitsMax ? std::string() : fmt::format(" ({} to {})", least, most);
}

}  // namespace

std::string HelpText::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  const std::string footer = app->get_footer();
  return wrapped_paragraphs(app->get_description()) + "\n" + wrapped(make_usage(app, std::move(name)), 0) +
         make_positionals(app) + make_subcommands(app, CLI::AppFormatMode::Normal) +
         ordered_groups(app, mode) + (footer.empty() ? "" : "\n") + wrapped_paragraphs(footer);
}

std::string HelpText::ordered_groups(const CLI::App* app, CLI::AppFormatMode mode) const {
  constexpr std::array<std::string_view, 3> kLast{kConfigurationGroup, kDeviceKeys, kOtherKeys};
  std::vector<std::string> groups = app->get_groups();
  const auto first_key = std::ranges::stable_partition(
      groups, [&](const std::string& group) { return std::ranges::find(kLast, group) == kLast.end(); });
  groups.erase(first_key.begin(), groups.end());
  groups.insert(groups.end(), kLast.begin(),
                mode == CLI::AppFormatMode::All ? kLast.end() : kLast.begin() + 1);
  std::string out;
  for (const std::string& group : groups) {
    const auto options = app->get_options(
        [&](const CLI::Option* option) { return option->get_group() == group && option->nonpositional(); });
    if (!group.empty() && !options.empty()) out += make_group(group, false, options);
  }
  return out;
}

std::string HelpText::make_subcommand(const CLI::App* command) const {
  const std::string text = command->get_description();
  return row(command->get_name(), text.substr(0, text.find('\n')));
}

std::string HelpText::make_option(const CLI::Option* option, bool is_positional) const {
  if (is_positional) return row(make_option_name(option, true), option->get_description());
  return row(make_option_name(option, false) + make_option_opts(option),
             option->get_description() + value_limits(option->get_type_name()));
}

std::string HelpText::make_option_opts(const CLI::Option* option) const {
  const std::string value = value_name(*option);
  if (option->get_type_size() == 0 || value.empty()) return {};
  const std::string known = option->get_default_str().empty() ? "" : "=" + option->get_default_str();
  return option->get_expected_min() == 0 ? fmt::format(" [{}{}]", value, known)
                                         : fmt::format(" {}{}", value, known);
}

std::string value_name(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.substr(0, end_of_name(type));
}

}  // namespace uroce::launch
