#pragma once

#include <charconv>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/values/result.h"

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

/// Calls `store` for each pair, in their order. The error is EINVAL, and names the key that `store`
/// complained of, or that came twice.
Status store_pairs(std::string_view text,
                   const std::function<Complaint(std::string_view key, std::string_view value)>& store);

}  // namespace uroce::host
