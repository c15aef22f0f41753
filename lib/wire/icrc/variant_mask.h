#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/big_endian.h"
#include "wire/header_sizes.h"
#include "wire/opcode.h"

namespace uroce::wire {

/// Ones over the fields that the ICRC leaves out because they change on the way, zeros elsewhere. Longer than
/// any headers by one vector, so that a window behind them reads zeros.
inline constexpr size_t kVariantMaskBytes = 80;
inline constexpr size_t kMaskedBytes = kVariantMaskBytes - 16;

constexpr std::array<uint8_t, kVariantMaskBytes> make_variant_mask(bool ipv4) {
  std::array<uint8_t, kVariantMaskBytes> mask{};
  const size_t udp = ipv4 ? kIpv4Bytes : kIpv6Bytes;
  if (ipv4) {
    mask[1] = 0xFF;              // Type of service.
    mask[8] = 0xFF;              // Time to live.
    mask[10] = mask[11] = 0xFF;  // Header checksum.
  } else {
    mask[0] = 0x0F;  // Traffic class and flow label; the version is covered.
    mask[1] = mask[2] = mask[3] = 0xFF;
    mask[7] = 0xFF;  // Hop limit.
  }
  mask[udp + 6] = mask[udp + 7] = 0xFF;  // UDP checksum.
  mask[udp + kUdpBytes + 4] = 0xFF;      // FECN, BECN and the reserved bits of the BTH.
  return mask;
}

alignas(64) inline constexpr std::array<uint8_t, kVariantMaskBytes> kIpv4VariantMask =
    make_variant_mask(true);
alignas(64) inline constexpr std::array<uint8_t, kVariantMaskBytes> kIpv6VariantMask =
    make_variant_mask(false);

/// The BTH ends with A bit and PSN: from there on nothing is masked.
inline constexpr uint32_t kPsnWordBytes = 4;
inline constexpr size_t kIpv4HeaderBytes = kIpv4Bytes + kUdpBytes + kBthBytes;
inline constexpr size_t kIpv6HeaderBytes = kIpv6Bytes + kUdpBytes + kBthBytes;

/// Which mask covers a packet. What is no IPv4 but too short for IPv6 is no packet that a receiver would
/// take, but not a byte behind it is to be read all the same.
inline bool is_masked_as_ipv4(std::span<const std::byte> ip_packet) {
  return load_u8(ip_packet.data()) >> 4 == 4 || ip_packet.size() < kIpv6HeaderBytes;
}

}  // namespace uroce::wire
