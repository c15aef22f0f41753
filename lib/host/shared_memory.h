#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/process/descriptor.h"
#include "base/values/result.h"
#include "host/memory_format.h"

namespace uroce::host {

/// A mapping of memory that processes share, undone at its end.
class Mapping {
 public:
  Mapping() = default;
  Mapping(std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

/// Zeroed memory that this process writes. A process that gets the descriptor can map it to read, and can
/// neither write nor truncate it. A forked child does not have the mapping.
struct SealedMemory {
  Descriptor descriptor;
  Mapping mapping;
};
/// `name` is for /proc. ENOMEM, EMFILE; ENOSYS: the kernel has no such seals.
Result<SealedMemory> make_sealed_memory(const char* name, size_t bytes);

/// A descriptor that stays open in a program, which may close what it does not know; a file of its own may
/// have got the number then, and stays open.
class HeldDescriptor {
 public:
  HeldDescriptor() = default;
  explicit HeldDescriptor(Descriptor descriptor);
  HeldDescriptor(HeldDescriptor&&) = default;
  HeldDescriptor& operator=(HeldDescriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(inode_, other.inode_);
    return *this;
  }
  ~HeldDescriptor();

  /// -1: the program has closed it.
  [[nodiscard]] int get() const;

 private:
  using Inode = std::optional<std::pair<uint64_t, uint64_t>>;  // device, number
  [[nodiscard]] static Inode inode_of(int descriptor);

  Descriptor descriptor_;
  Inode inode_;
};

/// Zeroed memory that this process and those that get its descriptor write, and that cannot be truncated.
struct OpenMemory {
  HeldDescriptor descriptor;
  Mapping mapping;
};
/// `name` is for /proc. ENOMEM, EMFILE, ENOSYS as make_sealed_memory(). A forked child has the mapping, too.
Result<OpenMemory> make_open_memory(const char* name, size_t bytes);

/// Maps, to read and write, what another process says is such memory of so many bytes at least. EPROTO, with
/// what is wrong: it is no memfd of ordinary pages, not sealed against truncation, or too short.
Result<Mapping> map_open_memory(int descriptor, size_t bytes_min);

/// Size of what another process says is such memory. EPERM, with what is wrong, as below. Never blocks,
/// whatever the descriptor is: the seals are asked for first, which only memory has. Every other call on a
/// file may wait for its file system, which may be another user's (FUSE).
Result<size_t> size_of_sealed_memory(int descriptor);

/// Maps, to read, what another process says is such memory. EPERM, with what is wrong: it is no memfd of
/// ordinary pages, is not sealed against truncation and against writes of all but its maker, or has another
/// size. Nothing that its maker does later makes an access fault.
Result<Mapping> map_sealed_memory(int descriptor, size_t bytes);
/// Memory whose beginning says that it has the format of `shape`. Errors as above, and EPROTO: it does not.
Result<Mapping> map_sealed_memory(int descriptor, MemoryShape shape);

}  // namespace uroce::host
