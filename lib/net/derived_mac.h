#pragma once

#include "base/values/identifiers.h"

namespace uroce::net {

/// A locally administered MAC that stays the same as long as the address does, for ports that have none of
/// their own (memif, rings): 02:00:a:b:c:d for a.b.c.d, 02:01 and a hash for IPv6.
MacAddress derived_mac(const Gid& address);

/// The group MAC of a multicast address (RFC 1112, RFC 2464).
MacAddress multicast_mac(const Gid& group);

[[nodiscard]] bool is_multicast(const Gid& gid);
[[nodiscard]] constexpr bool is_multicast(MacAddress mac) { return (mac.bytes[0] & 1) != 0; }

}  // namespace uroce::net
