#pragma once

#include <cstddef>
#include <cstring>
#include <memory_resource>
#include <utility>

#include "base/tables/pooled_memory.h"

namespace uroce::queue {

/// The memory that a queue lies in: whole cache lines, zero at first, from the pool or wherever its maker
/// says.
class QueueMemory {
 public:
  static constexpr size_t kAlignment = 64;

  QueueMemory() = default;
  /// `from` outlives the memory; nullptr: pooled_memory(). Throws bad_alloc.
  QueueMemory(size_t bytes, std::pmr::memory_resource* from)
      : from_(from != nullptr ? from : pooled_memory()),
        bytes_((bytes + kAlignment - 1) / kAlignment * kAlignment),
        memory_(static_cast<std::byte*>(from_->allocate(bytes_, kAlignment))) {
    std::memset(memory_, 0, bytes_);
  }
  ~QueueMemory() {
    if (memory_ != nullptr) from_->deallocate(memory_, bytes_, kAlignment);
  }
  QueueMemory(QueueMemory&& other) noexcept { swap(other); }
  QueueMemory& operator=(QueueMemory&& other) noexcept {
    swap(other);
    return *this;
  }

  [[nodiscard]] std::byte* get() const { return memory_; }
  void swap(QueueMemory& other) noexcept {
    std::swap(from_, other.from_);
    std::swap(bytes_, other.bytes_);
    std::swap(memory_, other.memory_);
  }

 private:
  std::pmr::memory_resource* from_ = nullptr;
  size_t bytes_ = 0;
  std::byte* memory_ = nullptr;
};

}  // namespace uroce::queue
