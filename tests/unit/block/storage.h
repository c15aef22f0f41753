#pragma once

#include <cstdint>
#include <string>

namespace uroce::testing {

/// A folder of its own, removed with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  /// A file of zeroes that has no blocks yet; its path.
  [[nodiscard]] std::string make_file(const std::string& name, uint64_t bytes) const;

 private:
  std::string path_;
};

/// A file system in memory over a folder, seen by this process alone. Needs root.
class MemoryFileSystem {
 public:
  /// `type`: "tmpfs", which has holes and `bytes` at most, or "ramfs", which has neither, nor O_DIRECT.
  MemoryFileSystem(const TemporaryFolder& folder, const std::string& type, uint64_t bytes);
  ~MemoryFileSystem();
  MemoryFileSystem(const MemoryFileSystem&) = delete;
  MemoryFileSystem& operator=(const MemoryFileSystem&) = delete;

  /// Empty when it is there; otherwise why it is not.
  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  std::string path_;
  std::string missing_;
};

/// A block device whose contents are a file; gone with the object or the process. Needs root.
class LoopDevice {
 public:
  LoopDevice(const std::string& file, uint32_t block_bytes);
  ~LoopDevice();
  LoopDevice(const LoopDevice&) = delete;
  LoopDevice& operator=(const LoopDevice&) = delete;

  [[nodiscard]] const std::string& missing() const { return missing_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Takes on the size that the file has now.
  [[nodiscard]] bool follow_size() const;

 private:
  std::string path_;
  std::string missing_;
  int device_ = -1;
};

}  // namespace uroce::testing
