#include "drivers/port/kernel/devargs.h"

#include <algorithm>
#include <charconv>

namespace uroce::drivers {

Devargs::Devargs(std::string_view text) : name_(text.substr(0, text.find(','))) {
  std::string_view rest = text.substr(name_.size());
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::string_view argument = rest.substr(0, rest.find(','));
    rest.remove_prefix(argument.size());
    const size_t equals = argument.find('=');
    arguments_.emplace_back(argument.substr(0, equals), equals == std::string_view::npos
                                                            ? std::string_view{}
                                                            : argument.substr(equals + 1));
  }
}

std::optional<std::string_view> Devargs::value(std::string_view key) const {
  for (const auto& [name, value] : arguments_) {
    if (name == key) return value;
  }
  return std::nullopt;
}

std::optional<uint32_t> Devargs::number(std::string_view key) const {
  const auto text = value(key);
  uint32_t number = 0;
  if (!text) return std::nullopt;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc{} || end != text->data() + text->size()) return std::nullopt;
  return number;
}

std::optional<std::string> Devargs::first_not_in(std::span<const std::string_view> keys) const {
  const auto found = std::ranges::find_if(arguments_, [&](const auto& argument) {
    return std::ranges::find(keys, argument.first) == keys.end();
  });
  if (found == arguments_.end()) return std::nullopt;
  return found->first;
}

void Devargs::set(std::string key, std::string value) {
  for (auto& [name, old] : arguments_) {
    if (name == key) {
      old = std::move(value);
      return;
    }
  }
  arguments_.emplace_back(std::move(key), std::move(value));
}

std::string Devargs::text() const {
  std::string text = name_;
  for (const auto& [key, value] : arguments_) {
    text += ',' + key;
    if (!value.empty()) text += '=' + value;
  }
  return text;
}

}  // namespace uroce::drivers
