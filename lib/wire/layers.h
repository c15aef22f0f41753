#pragma once

#include <cstddef>
#include <span>

#include "wire/header_sizes.h"
#include "wire/packet.h"
#include "wire/vlan.h"

// How parse_frame goes down: each layer proves its own lengths, fills its part of the packet and hands the
// rest to the next one. Inside wire only.
namespace uroce::wire {

inline ParseOutcome dropped(Counter reason) { return {ParseResult::kDropped, reason}; }
inline ParseOutcome not_roce() { return {ParseResult::kNotRoce, Counter::kRxNotRoce}; }

/// `bytes` begin with the IP header; Ethernet padding may follow the packet.
ParseOutcome parse_ipv4(std::span<const std::byte> bytes, Packet& packet);
ParseOutcome parse_ipv6(std::span<const std::byte> bytes, Packet& packet);

/// `addresses` are the IP header's two, `datagram` is exactly what IP announces, at least a UDP header.
ParseOutcome parse_udp(std::span<const std::byte> addresses, std::span<const std::byte> datagram,
                       Packet& packet);

}  // namespace uroce::wire
