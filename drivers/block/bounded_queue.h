#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/values/contract.h"

namespace uroce::drivers {

/// First in, first out, for one thread. Has all its memory from the beginning.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(uint32_t capacity) : entries_(capacity) {}

  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  /// There is one.
  [[nodiscard]] T& front() { return entries_[first_]; }

  void push(const T& entry) {
    UROCE_ASSERT(size_ < entries_.size());
    entries_[wrapped(first_ + size_++)] = entry;
  }
  T pop() {
    UROCE_ASSERT(size_ > 0);
    const T entry = entries_[first_];
    first_ = wrapped(first_ + 1);
    --size_;
    return entry;
  }

 private:
  [[nodiscard]] size_t wrapped(size_t at) const { return at < entries_.size() ? at : at - entries_.size(); }

  std::vector<T> entries_;
  size_t first_ = 0;
  size_t size_ = 0;
};

}  // namespace uroce::drivers
