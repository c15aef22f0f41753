#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace uroce::fuzz {

/// What a fuzzer's input decides, one byte or more at a time. When it is used up every choice is 0.
class Choices {
 public:
  explicit Choices(std::span<const std::byte> input) : left_(input) {}

  [[nodiscard]] bool over() const { return left_.empty(); }
  uint64_t bytes(size_t count) {
    uint64_t value = 0;
    for (; count > 0 && !left_.empty(); --count, left_ = left_.subspan(1))
      value = value << 8 | static_cast<uint64_t>(left_[0]);
    return value;
  }
  /// 0 .. bound-1.
  uint32_t below(uint32_t bound) {
    return static_cast<uint32_t>(bytes(bound <= 0x100 ? 1 : bound <= 0x10000 ? 2 : 4) % bound);
  }
  /// Once in `times`, roughly.
  bool once_in(uint32_t times) { return below(times) == times - 1; }

 private:
  std::span<const std::byte> left_;
};

}  // namespace uroce::fuzz
