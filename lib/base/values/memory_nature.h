#pragma once

#include <cstdint>

namespace uroce {

/// What is known about registered memory that matters for how it is written to.
class MemoryNature {
 public:
  static constexpr uint32_t kBits = 2;

  /// `cold`: too large to stay in cache, so that placement may go around it. `ours`: memory of the stack's
  /// own, which is there as long as it is registered, so that an engine without a guard may write to
  /// it.
  constexpr MemoryNature(bool cold = false, bool ours = false)
      : bits_(static_cast<uint8_t>((cold ? kColdBit : 0) | (ours ? kOursBit : 0))) {}
  static constexpr MemoryNature from_bits(uint32_t bits) {
    MemoryNature nature;
    nature.bits_ = static_cast<uint8_t>(bits);
    return nature;
  }
  [[nodiscard]] constexpr uint32_t bits() const { return bits_; }

  [[nodiscard]] constexpr bool cold() const { return (bits_ & kColdBit) != 0; }
  [[nodiscard]] constexpr bool ours() const { return (bits_ & kOursBit) != 0; }

 private:
  static constexpr uint8_t kColdBit = 1;
  static constexpr uint8_t kOursBit = 2;
  uint8_t bits_;
};

}  // namespace uroce
