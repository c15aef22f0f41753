#pragma once

#include <compare>
#include <cstdint>

namespace uroce {

/// Packet sequence number: 24 bits, arithmetic modulo 2^24 (protocol: a signed 24-bit difference decides
/// which of two is newer, so at most 2^23 may be outstanding).
class Psn {
 public:
  static constexpr uint32_t kMask = 0xFFFFFF;

  constexpr Psn() = default;
  constexpr explicit Psn(uint32_t value) : value_(value & kMask) {}

  [[nodiscard]] constexpr uint32_t value() const { return value_; }

  /// Signed distance `*this - other` in -2^23 .. 2^23-1; positive when *this is newer.
  [[nodiscard]] constexpr int32_t operator-(Psn other) const {
    return static_cast<int32_t>((value_ - other.value_) << 8) >> 8;
  }
  [[nodiscard]] constexpr Psn operator+(uint32_t count) const { return Psn(value_ + count); }
  [[nodiscard]] constexpr Psn operator-(uint32_t count) const { return Psn(value_ - count); }
  constexpr Psn& operator+=(uint32_t count) { return *this = *this + count; }
  constexpr Psn& operator++() { return *this += 1; }

  [[nodiscard]] constexpr bool operator==(const Psn&) const = default;
  [[nodiscard]] constexpr bool before(Psn other) const { return *this - other < 0; }
  [[nodiscard]] constexpr bool after(Psn other) const { return *this - other > 0; }

 private:
  uint32_t value_ = 0;
};

}  // namespace uroce
