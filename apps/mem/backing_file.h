#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "apps/mem/memory_tables.h"
#include "base/values/result.h"

namespace uroce::memory_export {

class OpenFile;

/// A file as memory: what is written to the memory is written to the file, by the kernel when it likes, by
/// sync() at once.
class BackingFile {
 public:
  /// Makes the file when it is not there, and extends it to the configured size; it is never cut. A writable
  /// one gets its blocks at once where the file system can do that, so that no write finds the disk full. The
  /// error is one line that names the file; the file is then as it was.
  static Result<BackingFile> open(const RegionConfiguration& configuration);

  BackingFile(BackingFile&& other) noexcept;
  BackingFile& operator=(BackingFile&&) = delete;
  /// A file that was not kept goes back to what it was.
  ~BackingFile();

  /// From now on the file stays as it is.
  void keep();

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

  /// Returns when the range is on the disk: 0, or errno. Any thread.
  [[nodiscard]] int sync(uint64_t offset, uint64_t length) const;

 private:
  BackingFile(std::span<std::byte> bytes, std::unique_ptr<OpenFile> file);

  std::span<std::byte> bytes_;
  std::unique_ptr<OpenFile> file_;  // until it is kept
};

}  // namespace uroce::memory_export
