#pragma once

#include <cstdint>

#include "base/values/identifiers.h"

namespace uroce {

/// Consecutive queue pair numbers. Of programs that share an address each has a block of its own, a power of
/// two of numbers and aligned to that; otherwise a process has them all.
struct NumberBlock {
  uint32_t first = 0;
  uint32_t count = QpNumber::kMask + 1;

  [[nodiscard]] constexpr bool contains(QpNumber number) const { return number.value - first < count; }
  [[nodiscard]] constexpr bool operator==(const NumberBlock&) const = default;
};

}  // namespace uroce
