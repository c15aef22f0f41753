#pragma once

#include <cstdint>

#include "base/values/identifiers.h"

namespace uroce::net {

/// An address of ours with the length of its prefix: what lies inside is on the link.
struct Prefix {
  Gid address;
  uint8_t bits = 0;  // 0..32 for IPv4, 0..128 for IPv6

  [[nodiscard]] constexpr bool contains(const Gid& other) const {
    if (address.is_ipv4() != other.is_ipv4()) return false;
    uint32_t left = address.is_ipv4() ? 96u + bits : bits;
    for (size_t i = 0; i < 16 && left > 0; ++i) {
      const uint32_t here = left < 8 ? left : 8;
      const auto mask = static_cast<uint8_t>(0xFF00u >> here);
      if (((address.bytes[i] ^ other.bytes[i]) & mask) != 0) return false;
      left -= here;
    }
    return true;
  }
};

/// The address inside the prefix with no bit behind it.
constexpr Gid first_of(const Prefix& prefix) {
  Gid first = prefix.address;
  const uint32_t bits = prefix.address.is_ipv4() ? 96u + prefix.bits : prefix.bits;
  for (uint32_t i = 0; i < 16; ++i) {
    const uint32_t here = bits <= i * 8 ? 0 : bits - i * 8;
    if (here < 8) first.bytes[i] = static_cast<uint8_t>(first.bytes[i] & (0xFF00u >> here));
  }
  return first;
}

}  // namespace uroce::net
