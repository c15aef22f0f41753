#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/configuration/toml_values.h"

// Tables of a TOML file that belong to programs, read by lists of the keys that each may have.
namespace uroce::configuration {

/// A key that a table may have.
struct Key {
  std::string_view name;
  std::function<Complaint(const toml::node& value)> store;
  bool required = false;
};

/// Collects complaints of one file: the one that stands first in it is told.
class Complaints {
 public:
  explicit Complaints(std::string origin) : origin_(std::move(origin)) {}

  void add(const toml::source_region& where, std::string_view key, std::string_view what);
  /// Empty: there are none.
  [[nodiscard]] const std::string& first() const { return first_; }
  /// "FILE:LINE: key".
  [[nodiscard]] std::string place(const toml::source_region& where, std::string_view key) const;

 private:
  const std::string origin_;
  std::string first_;
  toml::source_index line_ = 0;
};

/// Stores every key of the table; complains of unknown ones and of required ones that are not there. `path`:
/// how complaints call the table.
void read_keys(const toml::table& table, std::string_view path, std::span<const Key> keys,
               Complaints& complaints);

// Storing one value.
Complaint store_strings(const toml::node& value, std::vector<std::string>& to, size_t bytes_max);
Complaint store_integers(const toml::node& value, std::vector<uint32_t>& to, int64_t highest);
/// A number of bytes, or a string with a unit of 1024: "64 MiB", "10G".
Complaint store_size(const toml::node& value, std::optional<uint64_t>& to);

}  // namespace uroce::configuration
