#pragma once

#include <cstddef>
#include <cstdint>

// Sizes of the headers below the BTH, in bytes, and the numbers by which one names the next.
namespace uroce::wire {

inline constexpr size_t kEthernetBytes = 14;
inline constexpr size_t kIpv4Bytes = 20;
inline constexpr size_t kIpv6Bytes = 40;
inline constexpr size_t kUdpBytes = 8;

inline constexpr uint16_t kEtherTypeIpv4 = 0x0800;
inline constexpr uint16_t kEtherTypeIpv6 = 0x86DD;
inline constexpr uint16_t kEtherTypeServiceVlan = 0x88A8;
inline constexpr uint8_t kProtocolUdp = 17;

}  // namespace uroce::wire
