#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/values/identifiers.h"

// Addresses as people write them: for configuration, messages and printing, never on the packet path.
namespace uroce::wire {

/// "198.51.100.1" for an IPv4-mapped GID, else the IPv6 address in its shortest form (RFC 5952).
std::string to_text(const Gid& gid);

/// "02:00:00:00:09:01".
std::string to_text(const MacAddress& mac);

/// Six pairs of hexadecimal digits with colons between them; nothing else.
std::optional<MacAddress> parse_mac(std::string_view text);

/// An IPv4 address in dotted form (gives the mapped GID) or an IPv6 address; no prefix length, no scope.
std::optional<Gid> parse_ip(std::string_view text);

}  // namespace uroce::wire
