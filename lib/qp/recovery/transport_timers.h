#pragma once

#include <array>
#include <cstdint>

#include "base/values/time.h"

namespace uroce::qp {

/// Value of `timeout` that means "never".
inline constexpr uint8_t kNoAckTimeout = 0;
/// Value of `rnr_retry` that means "for ever".
inline constexpr uint8_t kRnrRetryForEver = 7;

/// T of the ACK timeout: 4.096 us * 2^code (lib/README.md, wire fact 7). A requester reacts between T and 4T.
constexpr Duration ack_timeout(uint8_t code) { return nanoseconds(int64_t{4096} << code); }

/// Least time that a requester waits after an RNR NAK (lib/README.md, wire fact 6).
constexpr Duration rnr_wait(uint8_t code) {
  constexpr std::array<int32_t, 32> kHundredthsOfMs = {
      65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
      256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return microseconds(10) * kHundredthsOfMs[code & 31u];
}

}  // namespace uroce::qp
