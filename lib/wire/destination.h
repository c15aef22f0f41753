#pragma once

#include <cstddef>
#include <span>

#include "base/values/identifiers.h"
#include "wire/big_endian.h"
#include "wire/header_sizes.h"
#include "wire/transport.h"
#include "wire/vlan.h"

namespace uroce::wire {

/// How many bytes of a frame there are up to its BTH, if it is one of RoCE v2 without IP options. Reads its
/// Ethernet and VLAN headers and one byte more.
inline size_t bytes_before_bth(const std::byte* frame) {
  const bool tagged = load_be16(frame + kEthernetBytes - 2) == kEtherTypeVlan;
  const size_t ip = kEthernetBytes + (tagged ? kVlanTagBytes : 0);
  const bool ipv4 = (load_u8(frame + ip) >> 4) == 4;
  return ip + (ipv4 ? kIpv4Bytes : kIpv6Bytes) + kUdpBytes;
}

/// The destination queue pair in a frame of our own making, which is complete.
inline QpNumber destination_of(const std::byte* frame) {
  return {load_be32(frame + bytes_before_bth(frame) + 4) & QpNumber::kMask};
}

/// What any frame says where its destination would be. 0: it is too short for one.
inline QpNumber destination_in(std::span<const std::byte> frame) {
  constexpr size_t kBytesMin = kEthernetBytes + kIpv4Bytes + kUdpBytes + kBthBytes;
  if (frame.size() < kBytesMin || frame.size() < bytes_before_bth(frame.data()) + kBthBytes) return {0};
  return destination_of(frame.data());
}

}  // namespace uroce::wire
