#include "tests/unit/block/storage.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace uroce::testing {
namespace {

std::string reason(const std::string& what) { return what + ": " + std::strerror(errno); }

/// Empty when mounts of this process are seen by no other process.
std::string mounts_of_our_own() {
  static const std::string wrong = [] {
    if (::unshare(CLONE_NEWNS) != 0) return reason("no mounts of our own");
    return ::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ? reason("no private mounts") : "";
  }();
  return wrong;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string pattern = std::filesystem::temp_directory_path().string() + "/uroce-block-XXXXXX";
  path_ = ::mkdtemp(pattern.data());
}

TemporaryFolder::~TemporaryFolder() { std::filesystem::remove_all(path_); }

std::string TemporaryFolder::make_file(const std::string& name, uint64_t bytes) const {
  std::string path = path_ + "/" + name;
  std::ofstream(path).close();
  std::filesystem::resize_file(path, bytes);
  return path;
}

MemoryFileSystem::MemoryFileSystem(const TemporaryFolder& folder, const std::string& type, uint64_t bytes)
    : path_(folder.path()), missing_(mounts_of_our_own()) {
  if (!missing_.empty()) return;
  const std::string options = type == "tmpfs" ? "size=" + std::to_string(bytes) : "";
  if (::mount(type.c_str(), path_.c_str(), type.c_str(), 0, options.c_str()) != 0)
    missing_ = reason("no " + type);
}

MemoryFileSystem::~MemoryFileSystem() {
  if (missing_.empty()) ::umount2(path_.c_str(), MNT_DETACH);
}

LoopDevice::LoopDevice(const std::string& file, uint32_t block_bytes) {
  const int control = ::open("/dev/loop-control", O_RDWR | O_CLOEXEC);
  const int contents = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  missing_ = control < 0 || contents < 0 ? reason("no loop devices") : "";
  // Others may take the one that was free.
  for (int attempt = 0; missing_.empty() && device_ < 0 && attempt < 10; ++attempt) {
    path_ = "/dev/loop" + std::to_string(::ioctl(control, LOOP_CTL_GET_FREE));
    device_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
    loop_config configuration = {};
    configuration.fd = static_cast<uint32_t>(contents);
    configuration.block_size = block_bytes;
    configuration.info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO;
    if (device_ >= 0 && ::ioctl(device_, LOOP_CONFIGURE, &configuration) == 0) break;
    if (errno != EBUSY) missing_ = reason(path_);
    if (device_ >= 0) ::close(device_);
    device_ = -1;
  }
  if (missing_.empty() && device_ < 0) missing_ = "no free loop device";
  if (contents >= 0) ::close(contents);
  if (control >= 0) ::close(control);
}

LoopDevice::~LoopDevice() {
  if (device_ >= 0) ::close(device_);
}

bool LoopDevice::follow_size() const { return ::ioctl(device_, LOOP_SET_CAPACITY) == 0; }

}  // namespace uroce::testing
