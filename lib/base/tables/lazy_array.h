#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>

#include "base/tables/memory_calls.h"
#include "base/values/contract.h"

namespace uroce {

/// Room for so many elements, at addresses that stay, whose pages get memory when they are first used: what
/// is there for the most that may come, and mostly does not. All bytes are zero at first; an element of a
/// type for which that is no value is constructed there by its user, and none is destroyed. Throws bad_alloc.
template <typename T>
class LazyArray {
 public:
  explicit LazyArray(size_t count)
      : count_(count), memory_(map_memory(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_NORESERVE)) {
    if (memory_ == nullptr) throw std::bad_alloc();
  }
  ~LazyArray() { unmap_memory(memory_, bytes()); }
  LazyArray(const LazyArray&) = delete;
  LazyArray& operator=(const LazyArray&) = delete;

  [[nodiscard]] size_t size() const { return count_; }
  [[nodiscard]] T* data() { return reinterpret_cast<T*>(memory_); }
  [[nodiscard]] const T* data() const { return reinterpret_cast<const T*>(memory_); }
  [[nodiscard]] T& operator[](size_t i) {
    UROCE_ASSERT(i < count_);
    return data()[i];
  }

 private:
  [[nodiscard]] size_t bytes() const { return count_ * sizeof(T); }

  const size_t count_;
  std::byte* const memory_;
};

}  // namespace uroce
