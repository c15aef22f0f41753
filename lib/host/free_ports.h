#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace uroce::host {

/// Which ports of the range that is given out are free: a bit each, and how many there are. One word in 64
/// ports is looked at to find the next one, 442 at most.
class FreePorts {
 public:
  /// The range of Linux (ip_local_port_range).
  static constexpr uint16_t kFirst = 32768;
  static constexpr uint16_t kLast = 60999;
  static constexpr size_t kCount = kLast - kFirst + 1;

  FreePorts() {
    for (size_t i = 0; i < kCount; ++i) set(i);
  }

  [[nodiscard]] static constexpr bool in_range(uint16_t port) { return port >= kFirst && port <= kLast; }
  [[nodiscard]] size_t count() const { return count_; }

  /// The first free port from `start` on, a port of the range, or from the beginning. Null: none is free.
  [[nodiscard]] std::optional<uint16_t> next(uint16_t start) const {
    if (count_ == 0) return std::nullopt;
    const size_t from = start - kFirst;
    const uint64_t behind = ~uint64_t{0} << (from % kBits);
    for (size_t i = 0; i <= kWords; ++i) {
      const size_t word = (from / kBits + i) % kWords;
      // The word of `start` is looked at twice: what lies behind it, and at last what lies before.
      const uint64_t mask = i == 0 ? behind : i == kWords ? ~behind : ~uint64_t{0};
      if (const uint64_t free = words_[word] & mask; free != 0)
        return static_cast<uint16_t>(kFirst + word * kBits + static_cast<size_t>(std::countr_zero(free)));
    }
    return std::nullopt;
  }

  /// A port of the range that was free is so no more, and the reverse.
  void take(uint16_t port) {
    words_[(port - kFirst) / kBits] &= ~bit(static_cast<size_t>(port - kFirst));
    --count_;
  }
  void give_back(uint16_t port) { set(static_cast<size_t>(port - kFirst)); }

 private:
  static constexpr size_t kBits = 64;
  static constexpr size_t kWords = (kCount + kBits - 1) / kBits;

  [[nodiscard]] static constexpr uint64_t bit(size_t index) { return uint64_t{1} << (index % kBits); }
  void set(size_t index) {
    words_[index / kBits] |= bit(index);
    ++count_;
  }

  std::array<uint64_t, kWords> words_{};
  size_t count_ = 0;
};

}  // namespace uroce::host
