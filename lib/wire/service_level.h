#pragma once

#include <cstdint>
#include <optional>

#include "wire/packet.h"
#include "wire/vlan.h"

namespace uroce::wire {

// RoCE has no service level on the wire. In the completion of a datagram its field says instead, as Ethernet
// adapters do, what stands in the 40 bytes before the message, and programs (UCX) read it there: bit 3 for a
// RoCE v2 packet, and 1 for IPv6 or 2 for IPv4 in the bits below. Ours has the priority of a VLAN tag above
// these four bits.

constexpr uint8_t kDatagramIpv6 = 0x9;
constexpr uint8_t kDatagramIpv4 = 0xA;

/// The service level in the completion of a datagram that came this way.
constexpr uint8_t service_level_of(const Flow& flow) {
  const uint8_t priority = flow.has_vlan ? priority_of(flow.vlan_tci) : uint8_t{0};
  return static_cast<uint8_t>(priority << 4 | (flow.ipv4 ? kDatagramIpv4 : kDatagramIpv6));
}

/// The VLAN priority that a program means by the service level of an address: 0 to 7, or what a completion
/// said, since programs answer with it. nullopt: neither.
constexpr std::optional<uint8_t> priority_of_service_level(uint8_t level) {
  if (level < 8) return level;
  const uint8_t type = level & 0xF;
  if (type != kDatagramIpv4 && type != kDatagramIpv6) return std::nullopt;
  return level < 0x80 ? std::optional(static_cast<uint8_t>(level >> 4)) : std::nullopt;
}

}  // namespace uroce::wire
