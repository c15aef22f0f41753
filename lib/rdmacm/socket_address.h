#pragma once

#include <rdma/rdma_cma.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>

#include "base/values/identifiers.h"
#include "wire/ip_cm.h"

namespace uroce::rdmacm {

/// What a sockaddr_ib says besides a GID and a port.
struct IbAddress {
  uint16_t partition_key = 0;
  uint32_t flow_information = 0;
  uint64_t service = 0;       // the service id; its last 16 bits are the port
  uint64_t service_mask = 0;  // the bits of it that count
  uint64_t scope = 0;
  [[nodiscard]] bool operator==(const IbAddress&) const = default;
};

/// An IP address and a port, as programs say them in a sockaddr; or a GID and a service, in one of AF_IB.
struct SocketAddress {
  sa_family_t family = AF_INET;  // or AF_INET6, AF_IB
  Gid address;                   // IPv4 as ::ffff:a.b.c.d
  uint16_t port = 0;
  uint32_t zone = 0;  // index of the interface on whose link an address of link scope is; 0: not said
  IbAddress ib = {};  // of AF_IB

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
  /// Whether it is an IPv6 address of link scope.
  [[nodiscard]] bool has_zone() const;
  [[nodiscard]] bool operator==(const SocketAddress&) const = default;
};

/// The port space of an id of `ps` at an address of AF_IB: the one that its service id names, or that of the
/// id. Null: the two do not agree.
std::optional<wire::PortSpace> port_space_of(const IbAddress& address, rdma_port_space ps);

/// Null: another family, or no address.
std::optional<SocketAddress> read_address(const sockaddr* from);

/// `to` has room for a sockaddr_storage; what is behind the address is zeroed.
void write_address(const SocketAddress& from, sockaddr_storage& to);

/// The length of an address of AF_INET or AF_INET6; 0: another family.
socklen_t address_length(sa_family_t family);

}  // namespace uroce::rdmacm
