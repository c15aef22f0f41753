#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "apps/mem/memory_tables.h"
#include "base/result.h"

namespace uroce::memory_export {

/// A file as memory: what is written to the memory is written to the file, by the kernel when it likes, by
/// sync() at once.
class BackingFile {
 public:
  /// Makes the file when it is not there, and extends it to the configured size; it is never cut. A writable
  /// one gets its blocks at once where the file system can do that, so that no write finds the disk full. The
  /// error is one line that names the file; the file is then as it was.
  static Result<BackingFile> open(const RegionConfiguration& configuration);

  BackingFile(BackingFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  BackingFile& operator=(BackingFile&&) = delete;
  ~BackingFile();

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

  /// Returns when the range is on the disk: 0, or errno. Any thread.
  [[nodiscard]] int sync(uint64_t offset, uint64_t length) const;

 private:
  explicit BackingFile(std::span<std::byte> bytes) : bytes_(bytes) {}

  std::span<std::byte> bytes_;
};

}  // namespace uroce::memory_export
