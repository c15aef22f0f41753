#pragma once

#include "base/values/identifiers.h"

namespace uroce {

/// Where a program listens: at one address, at every IPv4 address (::ffff:0.0.0.0), or at every address
/// (all zeroes), IPv4 among them or not; or at a loopback address, where only requests of this host arrive
/// that name it.
struct ListenAddress {
  constexpr ListenAddress() = default;
  constexpr ListenAddress(const Gid& gid, bool only_ipv6 = false) : address(gid), ipv6_only(only_ipv6) {}

  Gid address;
  bool ipv6_only = false;

  /// How precisely a listener at this address means `destination`; 0: not at all. Among listeners of one
  /// service a request goes to the one that means its destination most precisely.
  [[nodiscard]] constexpr int precision_for(const Gid& destination) const {
    if (address == destination) return 3;
    if (address.is_loopback()) return 0;
    if (address == Gid::from_ipv4({})) return destination.is_ipv4() ? 2 : 0;
    if (address == Gid{}) return destination.is_ipv4() && ipv6_only ? 0 : 1;
    return 0;
  }

  [[nodiscard]] constexpr bool operator==(const ListenAddress&) const = default;
};

}  // namespace uroce
