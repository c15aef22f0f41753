#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>

#include "base/identifiers.h"

namespace uroce::rdmacm {

/// An IP address and a port, as programs say them in a sockaddr.
struct SocketAddress {
  sa_family_t family = AF_INET;  // or AF_INET6
  Gid address;                   // IPv4 as ::ffff:a.b.c.d
  uint16_t port = 0;

  /// 0.0.0.0 or [::].
  [[nodiscard]] bool is_any() const { return address == any(family); }
  [[nodiscard]] static Gid any(sa_family_t family) {
    return family == AF_INET ? Gid::from_ipv4({0, 0, 0, 0}) : Gid{};
  }
  /// 127.0.0.1 or [::1].
  [[nodiscard]] static Gid loopback(sa_family_t family) {
    Gid one;
    one.bytes[15] = 1;
    return family == AF_INET ? Gid::from_ipv4({127, 0, 0, 1}) : one;
  }
  [[nodiscard]] bool operator==(const SocketAddress&) const = default;
};

/// Null: another family, or no address.
std::optional<SocketAddress> read_address(const sockaddr* from);

/// `to` has room for a sockaddr_storage; what is behind the address is zeroed.
void write_address(const SocketAddress& from, sockaddr_storage& to);

/// The length of an address of AF_INET or AF_INET6; 0: another family.
socklen_t address_length(sa_family_t family);

}  // namespace uroce::rdmacm
