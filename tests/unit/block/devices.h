#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "block/block.h"
#include "tests/unit/block/storage.h"

namespace uroce::testing {

inline constexpr uint64_t kDeviceBytes = 16u << 20;

/// Every kind of device that there is, by driver, block size and what is behind it.
struct DeviceKind {
  const char* name;
  const char* driver;  // "" for the device whose power can be cut
  uint32_t block_bytes;
  bool keeps = true;  // what is written
  bool volatile_cache = false;
  enum class On : uint8_t { kNothing, kDisk, kTmpfs, kRamfs, kLoop } on = On::kNothing;
};

inline constexpr std::array kDeviceKinds = {
    DeviceKind{"null_512", "null", 512, false},
    DeviceKind{"null_4096", "null", 4096, false},
    DeviceKind{"ram_512", "ram", 512},
    DeviceKind{"ram_4096", "ram", 4096},
    DeviceKind{"file_512", "file", 512, true, true, DeviceKind::On::kDisk},
    DeviceKind{"file_4096", "file", 4096, true, true, DeviceKind::On::kDisk},
    DeviceKind{"file_tmpfs", "file", 4096, true, true, DeviceKind::On::kTmpfs},
    DeviceKind{"file_ramfs", "file", 512, true, true, DeviceKind::On::kRamfs},
    DeviceKind{"loop_512", "file", 512, true, true, DeviceKind::On::kLoop},
    DeviceKind{"loop_4096", "file", 4096, true, true, DeviceKind::On::kLoop},
    DeviceKind{"power_cut_512", "", 512, true, true},
    DeviceKind{"power_cut_4096", "", 4096, true, true},
};

/// Those that hold what is written to them, and those of the driver `file`.
std::vector<DeviceKind> kinds_that_keep();
std::vector<DeviceKind> kinds_of_files();

inline std::string name_of(const ::testing::TestParamInfo<DeviceKind>& info) { return info.param.name; }
inline void PrintTo(const DeviceKind& kind, std::ostream* out) { *out << kind.name; }

/// A device and what it stands on.
struct OpenedDevice {
  std::unique_ptr<TemporaryFolder> folder;
  std::unique_ptr<MemoryFileSystem> file_system;
  std::unique_ptr<LoopDevice> loop;
  std::string path;
  std::unique_ptr<block::Device> device;
  std::string missing;  // why the machine does not let us; empty
};

/// kDeviceBytes of zeroes.
OpenedDevice open_device(const DeviceKind& kind);

}  // namespace uroce::testing
