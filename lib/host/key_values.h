#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

// The text of an order: "key=value,key=value".
namespace uroce::host {

/// What is wrong with a value, in words that fit behind its key; nullopt when it was stored.
using Complaint = std::optional<std::string>;

/// A whole number, decimal, or hexadecimal with 0x as programs print keys and queue pairs, and nothing behind
/// it.
template <typename T>
bool read_number(std::string_view text, T& to) {
  const bool hexadecimal = text.starts_with("0x");
  if (hexadecimal) text.remove_prefix(2);
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, to, hexadecimal ? 16 : 10);
  return error == std::errc{} && stop == end;
}

/// `store(key, value)` is a Complaint. The error is EINVAL, and names the key.
template <typename Store>
Status store_pairs(std::string_view text, const Store& store) {
  std::vector<std::string_view> seen;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos)
      return Error{EINVAL, fmt::format("\"{}\": must be KEY=VALUE", part)};
    const std::string_view key = part.substr(0, equals);
    if (std::ranges::find(seen, key) != seen.end()) return Error{EINVAL, fmt::format("{}: given twice", key)};
    seen.push_back(key);
    if (const Complaint complaint = store(key, part.substr(equals + 1)))
      return Error{EINVAL, fmt::format("{}: {}", key, *complaint)};
  }
  return {};
}

}  // namespace uroce::host
