#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/values/time.h"

namespace uroce::script {

using Bytes = std::vector<std::byte>;

/// Where something stands in a script.
struct Place {
  std::string file;
  int line = 0;
};

/// A script is wrong, or the stack is: "file:line: what".
class Failure : public std::runtime_error {
 public:
  Failure(const Place& place, const std::string& what)
      : std::runtime_error(place.file + ':' + std::to_string(place.line) + ": " + what), line(place.line) {}
  const int line;
};

/// A line of a script, cut into words: what to do, then flags, names and options (`key=value`) in any order.
/// Every word must be asked for, or end() fails.
class Line {
 public:
  Line(Place place, std::string_view text);

  [[nodiscard]] const Place& place() const { return place_; }
  [[nodiscard]] const std::string& verb() const { return verb_; }
  /// As it was written.
  [[nodiscard]] const std::string& text() const { return text_; }

  /// The first word left; `what` says what it ought to be.
  std::string next(const std::string& what);
  [[nodiscard]] bool has_next() const { return !words_.empty(); }
  /// Whether the word is there, once.
  bool flag(std::string_view word);
  std::optional<std::string> option(const std::string& key);
  /// Nothing is left.
  void end() const;

  // Numbers: decimal, or hexadecimal with 0x in front.
  std::optional<uint64_t> number(const std::string& key);
  uint64_t number(const std::string& key, uint64_t otherwise) { return number(key).value_or(otherwise); }
  [[nodiscard]] uint64_t to_number(const std::string& text) const;
  /// "640us", "4.194304ms", "1s".
  [[nodiscard]] Duration to_duration(const std::string& text) const;
  /// "A..B", or one for both.
  [[nodiscard]] static std::pair<std::string, std::string> to_range(const std::string& text);

  [[noreturn]] void fail(const std::string& what) const { throw Failure(place_, what); }

 private:
  Place place_;
  std::string text_;
  std::string verb_;
  std::vector<std::string> words_;
  std::map<std::string, std::string> options_;
};

/// Words with a comma between.
std::vector<std::string> split(const std::string& text, char separator = ',');

/// The name that belongs to a value, and back, by a table of both. `what` is what the table is of.
template <typename Value>
struct Named {
  const char* name;
  Value value;
};
template <typename Value, size_t count>
Value value_of(const Line& line, const Named<Value> (&table)[count], const std::string& name,
               const char* what) {
  for (const auto& row : table) {
    if (name == row.name) return row.value;
  }
  line.fail(std::string("no such ") + what + ": " + name);
}
template <typename Value, size_t count>
std::string name_of(const Named<Value> (&table)[count], Value value) {
  for (const auto& row : table) {
    if (row.value == value) return row.name;
  }
  return std::to_string(static_cast<uint64_t>(value));
}

}  // namespace uroce::script
