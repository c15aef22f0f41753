#pragma once

#include <bit>
#include <cstdint>

#include "base/tables/number_block.h"
#include "base/values/identifiers.h"

namespace uroce {

/// A block of queue pair numbers in 13 bits, by which a frame says which program of this host sent it. The
/// place of the block in units of 2^12 numbers, and behind its last bit that counts a one: a power of two at
/// its own multiple has such a form, and no two blocks have the same.
struct BlockCode {
  static constexpr uint32_t kUnitBits = 12;  // of the least block
  static constexpr uint32_t kBits = 24 - kUnitBits + 1;

  uint16_t value = 0;  // 0: no program of this host, or this one

  /// `block` is a power of two of units, at a multiple of its size.
  static constexpr BlockCode of(NumberBlock block) {
    return {static_cast<uint16_t>((block.first >> kUnitBits << 1) + (block.count >> kUnitBits))};
  }
  /// Any value: one that is no block's contains what it looks like.
  [[nodiscard]] constexpr bool contains(QpNumber number) const {
    if (value == 0) return false;
    const int shift = std::countr_zero(value) + 1;
    return (number.value & QpNumber::kMask) >> (kUnitBits - 1) >> shift == uint32_t{value} >> shift;
  }
  [[nodiscard]] constexpr bool operator==(const BlockCode&) const = default;
};

}  // namespace uroce
