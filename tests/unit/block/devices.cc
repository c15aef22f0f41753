#include "tests/unit/block/devices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "drivers/block_registry.h"
#include "tests/block/power_cut.h"

namespace uroce::testing {
namespace {

using On = DeviceKind::On;

void prepare_storage(const DeviceKind& kind, OpenedDevice& opened) {
  if (kind.on == On::kNothing) return;
  opened.folder = std::make_unique<TemporaryFolder>();
  if (kind.on == On::kTmpfs || kind.on == On::kRamfs) {
    opened.file_system = std::make_unique<MemoryFileSystem>(
        *opened.folder, kind.on == On::kTmpfs ? "tmpfs" : "ramfs", 2 * kDeviceBytes);
    opened.missing = opened.file_system->missing();
  }
  opened.path = opened.folder->make_file("contents", kDeviceBytes);
  if (kind.on != On::kLoop) return;
  opened.loop = std::make_unique<LoopDevice>(opened.path, kind.block_bytes);
  opened.missing = opened.loop->missing();
  opened.path = opened.loop->path();
}

}  // namespace

std::vector<DeviceKind> kinds_that_keep() {
  std::vector<DeviceKind> kinds;
  std::ranges::copy_if(kDeviceKinds, std::back_inserter(kinds), &DeviceKind::keeps);
  return kinds;
}

std::vector<DeviceKind> kinds_of_files() {
  std::vector<DeviceKind> kinds;
  std::ranges::copy_if(kDeviceKinds, std::back_inserter(kinds),
                       [](const DeviceKind& kind) { return kind.on != On::kNothing; });
  return kinds;
}

OpenedDevice open_device(const DeviceKind& kind) {
  OpenedDevice opened;
  if (std::string(kind.driver).empty()) {
    opened.device = std::make_unique<PowerCutDevice>(
        PowerCutDevice::Options{.block_bytes = kind.block_bytes, .blocks = kDeviceBytes / kind.block_bytes});
    return opened;
  }
  prepare_storage(kind, opened);
  if (!opened.missing.empty()) return opened;
  drivers::BlockSpecification specification = {
      .driver = kind.driver, .path = opened.path, .block_bytes = kind.block_bytes};
  if (kind.on == On::kNothing) specification.size_bytes = kDeviceBytes;
  Result<std::unique_ptr<block::Device>> device = drivers::open_block_device(specification);
  EXPECT_TRUE(device.ok()) << (device.ok() ? "" : device.error().message);
  if (device.ok()) opened.device = std::move(*device);
  return opened;
}

}  // namespace uroce::testing
