#pragma once

#include <cstddef>
#include <utility>

#include "base/number_block.h"
#include "base/result.h"
#include "host/memory_format.h"
#include "service/descriptor.h"

namespace uroce::service {

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

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

/// Zeroed memory that this process writes. A process that gets the descriptor can map it to read, and can
/// neither write nor truncate it.
struct SealedMemory {
  Descriptor descriptor;
  Mapping mapping;
};
Result<SealedMemory> make_sealed_memory(const char* name, size_t bytes);

/// Maps, to read, what a program says is its memory. EINVAL, with what is wrong: it is no memfd of ordinary
/// pages, is not sealed against truncation and against writes of all but its maker, has another size or
/// format. Nothing that the program does later makes an access fault.
Result<Mapping> map_program_memory(int descriptor, host::MemoryShape shape);

/// The queue pair numbers that a service of this user had given to a program of `user`, by the memory that it
/// had made for that program. EPERM, with what is wrong: it is no such memory, or the numbers are no more the
/// program's.
Result<NumberBlock> granted_numbers(int descriptor, uid_t user);

}  // namespace uroce::service
