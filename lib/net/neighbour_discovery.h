#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/values/identifiers.h"

namespace uroce::net {

/// Neighbour solicitation or advertisement (RFC 4861).
struct DiscoveryMessage {
  bool advertisement = false;
  MacAddress source_mac;  // of the frame
  MacAddress destination_mac;
  Gid source;
  Gid destination;
  Gid target;
  std::optional<MacAddress> link_address;  // source's in a solicitation, target's in an advertisement
  bool solicited = false;                  // advertisements only, like the next
  bool override = false;
};

/// The most that write_discovery() writes: Ethernet, IPv6, the message, one option.
inline constexpr uint32_t kDiscoveryFrameBytes = 14 + 40 + 24 + 8;

/// True for frames that parse_discovery() may understand: untagged ICMPv6 solicitations and advertisements.
/// With `tag_bytes` 4, behind a VLAN tag.
[[nodiscard]] bool looks_like_discovery(std::span<const std::byte> frame, size_t tag_bytes = 0);

/// Every check of RFC 4861 7.1.1 and 7.1.2; nullopt when one fails.
std::optional<DiscoveryMessage> parse_discovery(std::span<const std::byte> frame);

/// Writes the message, with an option when it has a link address; returns the frame's length.
uint32_t write_discovery(std::span<std::byte> frame, const DiscoveryMessage& message);

/// ff02::1:ffXX:XXXX of an address.
Gid solicited_node(const Gid& address);
/// ff02::1.
Gid all_nodes();

}  // namespace uroce::net
