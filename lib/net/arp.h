#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/values/identifiers.h"

namespace uroce::net {

/// ARP for IPv4 over Ethernet (RFC 826).
struct ArpMessage {
  bool reply = false;
  MacAddress sender_mac;
  Gid sender;  // IPv4-mapped, like `target`
  MacAddress target_mac;
  Gid target;
};

inline constexpr uint16_t kEtherTypeArp = 0x0806;
/// With the padding that Ethernet wants.
inline constexpr uint32_t kArpFrameBytes = 60;

/// Reads an untagged Ethernet frame; nullopt unless it is a whole and sensible ARP request or reply.
std::optional<ArpMessage> parse_arp(std::span<const std::byte> frame);

/// Writes kArpFrameBytes, from message.sender_mac to `destination`.
void write_arp(std::span<std::byte> frame, const ArpMessage& message, MacAddress destination);

}  // namespace uroce::net
