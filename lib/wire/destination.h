#pragma once

#include <cstddef>

#include "base/identifiers.h"
#include "wire/big_endian.h"
#include "wire/header_sizes.h"
#include "wire/vlan.h"

namespace uroce::wire {

/// The destination queue pair in a frame of our own making, which is complete.
inline QpNumber destination_of(const std::byte* frame) {
  const bool tagged = load_be16(frame + kEthernetBytes - 2) == kEtherTypeVlan;
  const std::byte* const ip = frame + kEthernetBytes + (tagged ? kVlanTagBytes : 0);
  const bool ipv4 = (load_u8(ip) >> 4) == 4;
  const std::byte* const bth = ip + (ipv4 ? kIpv4Bytes : kIpv6Bytes) + kUdpBytes;
  return {load_be32(bth + 4) & QpNumber::kMask};
}

}  // namespace uroce::wire
