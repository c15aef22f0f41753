#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "wire/headers.h"

namespace uroce::qp {

// End-to-end credits: how many receive work requests the responder has, in the five bits of an AETH
// (protocol.md 6).

inline constexpr std::array<uint16_t, wire::kNoCredits> kCreditsOfCode = {
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,  192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};

/// The code of that many, rounded down.
constexpr uint8_t credit_code(uint32_t receives) {
  const auto* const above = std::upper_bound(kCreditsOfCode.begin(), kCreditsOfCode.end(), receives);
  return static_cast<uint8_t>(above - kCreditsOfCode.begin() - 1);
}

}  // namespace uroce::qp
