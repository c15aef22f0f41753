#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/values/result.h"

namespace uroce::memory_export {

/// A table [[memory]]: a file that clients reach as memory.
struct RegionConfiguration {
  std::string name;
  std::string file;
  std::optional<uint64_t> size;  // bytes; none: that of the file
  bool writable = false;
  bool allow_any_host = false;  // clients of other hosts, too
  bool operator==(const RegionConfiguration&) const = default;
};

/// Reads the tables [[memory]] of a TOML file, in which other tables belong to others; there may be none. Of
/// several errors the first in the file is told, with file, line and key.
Result<std::vector<RegionConfiguration>> read_memory_tables(const std::string& path);
Result<std::vector<RegionConfiguration>> parse_memory_tables(std::string_view text,
                                                             const std::string& origin);

}  // namespace uroce::memory_export
