#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace uroce::drivers {

/// What the configuration says about a block device.
struct BlockSpecification {
  std::string driver;                        // "null", "ram" or "file"
  std::string path = {};                     // file: a regular file, which exists, or a block device
  std::optional<uint64_t> size_bytes = {};   // null, ram: always; file: its first bytes only
  std::optional<uint32_t> block_bytes = {};  // 512 or 4096; default: 512, or what the file can be accessed in
  std::optional<int> memory_node = {};       // ram: where its memory lies; default: anywhere
  bool read_only = false;
};

}  // namespace uroce::drivers
