#pragma once

#define TOML_EXCEPTIONS 0
#include <fmt/format.h>
#include <toml++/toml.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

// Storing the values of a TOML document; of use to the stack's configuration and to those of programs.
namespace uroce::configuration {

/// What is wrong with a value, in words that fit behind "FILE:LINE: KEY: "; nullopt when it was stored.
using Complaint = std::optional<std::string>;

inline Complaint store_string(const toml::node& value, std::string& to, size_t bytes_max) {
  const auto* string = value.as_string();
  if (string == nullptr) return "must be a string in quotes";
  if (string->get().empty()) return "must not be empty";
  if (string->get().size() > bytes_max)
    return fmt::format("must not be longer than {} characters", bytes_max);
  to = string->get();
  return std::nullopt;
}

template <typename T>
Complaint store_integer(const toml::node& value, T& to, int64_t lowest, int64_t highest) {
  const auto* number = value.as_integer();
  if (number == nullptr) return "must be an integer";
  if (number->get() < lowest || number->get() > highest)
    return fmt::format("must be from {} to {}, not {}", lowest, highest, number->get());
  to = static_cast<T>(number->get());
  return std::nullopt;
}

inline Complaint store_flag(const toml::node& value, bool& to) {
  const auto* flag = value.as_boolean();
  if (flag == nullptr) return "must be true or false";
  to = flag->get();
  return std::nullopt;
}

/// Stores the value that a word stands for.
template <typename T, size_t N>
Complaint store_choice(const toml::node& value, T& to,
                       const std::array<std::pair<std::string_view, T>, N>& choices) {
  const auto* text = value.as_string();
  std::string known;
  for (const auto& [name, choice] : choices) {
    if (text != nullptr && text->get() == name) {
      to = choice;
      return std::nullopt;
    }
    known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", name);
  }
  return fmt::format("must be one of {}", known);
}

/// `store(element)` is a Complaint.
template <typename Store>
Complaint store_list(const toml::node& value, Store store) {
  const toml::array* list = value.as_array();
  if (list == nullptr) return "must be a list";
  for (const toml::node& element : *list)
    if (Complaint complaint = store(element)) return complaint;
  return std::nullopt;
}

/// `store(element, to)` is a Complaint. What is wrong anywhere leaves the vector as it was.
template <typename T, typename Store>
Complaint store_vector(const toml::node& value, std::vector<T>& to, size_t count_max, Store store) {
  std::vector<T> list;
  Complaint complaint =
      store_list(value, [&](const toml::node& element) { return store(element, list.emplace_back()); });
  if (complaint) return complaint;
  if (list.size() > count_max) return fmt::format("must not have more than {} elements", count_max);
  to = std::move(list);
  return std::nullopt;
}

}  // namespace uroce::configuration
