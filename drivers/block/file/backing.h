#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/values/result.h"

namespace uroce::drivers {

/// A regular file or block device that is open, and locked against other writers.
class Backing {
 public:
  /// O_DIRECT where the file system has it. A writer locks all others out that lock too (flock; a block
  /// device is also claimed from the kernel: it cannot be mounted, nor be claimed while it is), readers only
  /// writers. Errors name the path: those of open(2), EISDIR, ENOTSUP (neither file nor block device), EBUSY
  /// (in use).
  static Result<Backing> open(const std::string& path, bool read_only);

  ~Backing();
  Backing(Backing&& other) noexcept
      : path_(std::move(other.path_)),
        file_(std::exchange(other.file_, -1)),
        block_device_(other.block_device_),
        direct_(other.direct_),
        bytes_(other.bytes_),
        offset_alignment_(other.offset_alignment_),
        memory_alignment_(other.memory_alignment_) {}
  Backing& operator=(Backing&&) = delete;

  [[nodiscard]] int file() const { return file_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] bool is_block_device() const { return block_device_; }
  [[nodiscard]] bool is_direct() const { return direct_; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }  // when it was opened
  /// The alignment of the place and length of every access, and of the memory. 1 when not direct.
  [[nodiscard]] uint32_t offset_alignment() const { return offset_alignment_; }
  [[nodiscard]] uint32_t memory_alignment() const { return memory_alignment_; }

 private:
  Backing(std::string path, int file, bool direct) : path_(std::move(path)), file_(file), direct_(direct) {}
  [[nodiscard]] Status measure();
  [[nodiscard]] Status lock(bool read_only) const;
  void find_alignments();
  [[nodiscard]] bool can_read(uint32_t bytes) const;
  [[nodiscard]] Error failure(const char* what, int error) const;

  std::string path_;
  int file_;
  bool block_device_ = false;
  bool direct_;
  uint64_t bytes_ = 0;
  uint32_t offset_alignment_ = 1;
  uint32_t memory_alignment_ = 1;
};

/// True for a block device that has no bytes any more: it was pulled out. Makes a system call, does not
/// block.
bool was_taken_away(int file);

}  // namespace uroce::drivers
