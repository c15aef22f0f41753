#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "base/values/random.h"

namespace uroce::testing {

/// Memory that suits every device's memory_alignment.
class AlignedMemory {
 public:
  static constexpr std::align_val_t kAlignment{4096};

  explicit AlignedMemory(size_t bytes)
      : memory_(static_cast<std::byte*>(::operator new(bytes, kAlignment))), bytes_(bytes) {
    fill(std::byte{0});
  }

  [[nodiscard]] std::span<std::byte> bytes() const { return {memory_.get(), bytes_}; }
  [[nodiscard]] iovec piece(size_t offset, size_t length) const { return {memory_.get() + offset, length}; }
  [[nodiscard]] iovec piece() const { return piece(0, bytes_); }

  void fill(std::byte value) { std::ranges::fill(bytes(), value); }
  /// What follows from the seed. Whole words only.
  void scribble(uint64_t seed) {
    Random random(seed);
    for (size_t at = 0; at + sizeof(uint64_t) <= bytes_; at += sizeof(uint64_t)) {
      const uint64_t word = random.next();
      std::memcpy(memory_.get() + at, &word, sizeof word);
    }
  }
  [[nodiscard]] bool is_all(std::byte value) const {
    return std::ranges::all_of(bytes(), [value](std::byte byte) { return byte == value; });
  }
  bool operator==(const AlignedMemory& other) const { return std::ranges::equal(bytes(), other.bytes()); }

 private:
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }
  };

  std::unique_ptr<std::byte, Free> memory_;
  size_t bytes_;
};

}  // namespace uroce::testing
