#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace uroce::drivers {

enum class Steering : uint8_t { kHash, kRoundRobin };

/// Spreads UDP over IPv4 or IPv6 by its source port, everything else to 0; the same frame always gives the
/// same value. Bytes outside `frame` are not read.
uint32_t steering_hash(std::span<const std::byte> frame);

}  // namespace uroce::drivers
