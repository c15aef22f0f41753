#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "wire/headers.h"

namespace uroce::qp {

// End-to-end credits: how many receive work requests the responder has, in the five bits of an AETH
// (lib/README.md, wire fact 6).

inline constexpr std::array<uint16_t, wire::kNoCredits> kCreditsOfCode = {
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,  192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};

/// The code of that many, rounded down. Two codes for each power of two: that, and half as many again.
constexpr uint8_t credit_code(uint32_t receives) {
  if (receives < 2) return static_cast<uint8_t>(receives);
  constexpr uint32_t kMost = kCreditsOfCode.size() - 1;
  const auto power = static_cast<uint32_t>(std::bit_width(receives)) - 1;
  return static_cast<uint8_t>(std::min(2 * power + (receives >> (power - 1) & 1), kMost));
}

constexpr bool all_credits_are_told() {
  for (uint32_t code = 0; code < kCreditsOfCode.size(); ++code) {
    if (credit_code(kCreditsOfCode[code]) != code) return false;
    if (code > 0 && credit_code(kCreditsOfCode[code] - 1u) != code - 1) return false;
  }
  return credit_code(UINT32_MAX) == kCreditsOfCode.size() - 1;
}
static_assert(all_credits_are_told());

}  // namespace uroce::qp
