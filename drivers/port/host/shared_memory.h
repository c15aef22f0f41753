#pragma once

#include <cstddef>
#include <utility>

#include "base/result.h"
#include "drivers/port/host/descriptor.h"
#include "host/memory_format.h"

namespace uroce::drivers {

/// A mapping, unmapped at the end.
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

/// Memory that this process writes and all others can only map to read: no process can map it to write any
/// more, or change its size.
struct OwnSharedMemory {
  Descriptor descriptor;  // to be passed on
  Mapping mapping;

  /// Zeroed. `name` is for /proc. ENOMEM, EMFILE; ENOSYS: the kernel has no such seals.
  static Result<OwnSharedMemory> create(const char* name, size_t bytes);
};

/// Maps to read what another process has made so: EPERM when it is no memory of that sort, or not of `bytes`.
Result<Mapping> map_foreign(int descriptor, size_t bytes);
/// Memory of another process as above, whose beginning says that it has the format of `shape`.
Result<Mapping> map_foreign(int descriptor, host::MemoryShape shape);

}  // namespace uroce::drivers
