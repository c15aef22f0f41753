#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "base/values/contract.h"

namespace uroce {

/// A ring that is made as large as it must be: elements at free-running positions, of which those that are in
/// use lie within size() of each other. Has no memory before it grows for the first time. One thread.
template <typename T>
class GrownRing {
 public:
  /// A power of two, or 0.
  [[nodiscard]] uint32_t size() const { return size_; }
  [[nodiscard]] T& operator[](uint32_t position) {
    UROCE_ASSERT(size_ > 0);
    return slots_[position & (size_ - 1)];
  }

  [[nodiscard]] const T& operator[](uint32_t position) const {
    UROCE_ASSERT(size_ > 0);
    return slots_[position & (size_ - 1)];
  }

  /// To at least `size`, if it is smaller; the elements at [begin, end) stay where they are. False: there is
  /// no memory, and nothing has changed.
  [[nodiscard]] bool grow(uint32_t size, uint32_t begin, uint32_t end) {
    UROCE_ASSERT(end - begin <= size_);
    if (size <= size_) return true;
    const uint32_t larger = std::bit_ceil(size);
    std::unique_ptr<T[]> slots(new (std::nothrow) T[larger]);
    if (slots == nullptr) return false;
    for (uint32_t i = begin; i != end; ++i) slots[i & (larger - 1)] = (*this)[i];
    slots_ = std::move(slots);
    size_ = larger;
    return true;
  }

 private:
  std::unique_ptr<T[]> slots_;
  uint32_t size_ = 0;
};

}  // namespace uroce
