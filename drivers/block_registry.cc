#include "drivers/block_registry.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <string_view>

#include "drivers/block/file/file.h"
#include "drivers/block/null/null.h"
#include "drivers/block/ram/ram.h"

namespace uroce::drivers {
namespace {

struct BlockDriver {
  std::string_view name;
  bool has_path;  // the size is that of what is there; otherwise it must be told
  bool has_node;
  Result<std::unique_ptr<block::Device>> (*open)(const BlockSpecification& specification);
};

/// Every block driver.
constexpr std::array kBlockDrivers = {
    BlockDriver{"null", false, false, open_null},
    BlockDriver{"ram", false, true, open_ram},
    BlockDriver{"file", true, false, open_file},
};

std::string names() {
  std::string all;
  for (const BlockDriver& driver : kBlockDrivers) all += (all.empty() ? "" : ", ") + std::string(driver.name);
  return all;
}

/// What is missing or of no use; empty when nothing is.
std::string wrong_keys(const BlockDriver& driver, const BlockSpecification& specification) {
  if (driver.has_path && specification.path.empty()) return "path is missing";
  if (!driver.has_path && !specification.path.empty()) return "takes no path (" + specification.path + ")";
  if (!driver.has_path && !specification.size_bytes) return "size is missing";
  if (!driver.has_node && specification.memory_node) return "takes no memory node";
  return {};
}

std::string wrong_sizes(const BlockSpecification& specification) {
  const uint32_t block_bytes = specification.block_bytes.value_or(512);
  if (block_bytes != 512 && block_bytes != 4096)
    return "block size " + std::to_string(block_bytes) + " is neither 512 nor 4096";
  if (!specification.size_bytes) return {};
  if (*specification.size_bytes == 0) return "size is 0";
  if (*specification.size_bytes % block_bytes != 0)
    return "size " + std::to_string(*specification.size_bytes) + " is not a multiple of the block size " +
           std::to_string(block_bytes);
  return {};
}

}  // namespace

Result<std::unique_ptr<block::Device>> open_block_device(const BlockSpecification& specification) {
  const auto driver = std::ranges::find(kBlockDrivers, specification.driver, &BlockDriver::name);
  if (driver == kBlockDrivers.end())
    return Error{EINVAL, "no block driver '" + specification.driver + "' (there are " + names() + ")"};
  std::string wrong = wrong_keys(*driver, specification);
  if (wrong.empty()) wrong = wrong_sizes(specification);
  const std::string thing =
      driver->has_path ? specification.driver + " " + specification.path : specification.driver;
  if (!wrong.empty()) return Error{EINVAL, thing + ": " + wrong};
  return driver->open(specification);
}

}  // namespace uroce::drivers
