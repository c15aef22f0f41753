#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "host/shared_device.h"

namespace uroce::host {

/// What kind of address an id is bound to.
enum class AddressKind : uint8_t {
  kIpv4,     // one address
  kAnyIpv4,  // 0.0.0.0
  kIpv6,     // one address
  kAnyIpv6,  // [::] with IPV6_V6ONLY
  kDual,     // [::], which includes every IPv4 address
};
inline constexpr size_t kAddressKinds = 5;

/// Where ids are bound that share everything: a port of a port space, and one address or a kind of all.
struct PortPlace {
  uint16_t space = 0;
  uint16_t port = 0;
  AddressKind kind = AddressKind::kIpv4;
  Gid address;  // zero: all of the kind

  [[nodiscard]] static PortPlace of(const PortRequest& request) {
    const bool any = request.address == (request.ipv6 ? Gid{} : Gid::from_ipv4({}));
    if (!any)
      return {request.space, request.port, request.ipv6 ? AddressKind::kIpv6 : AddressKind::kIpv4,
              request.address};
    if (!request.ipv6) return {request.space, request.port, AddressKind::kAnyIpv4, Gid{}};
    return {request.space, request.port, request.family_only ? AddressKind::kAnyIpv6 : AddressKind::kDual,
            Gid{}};
  }
  [[nodiscard]] bool operator==(const PortPlace&) const = default;
  [[nodiscard]] auto operator<=>(const PortPlace&) const = default;
};

}  // namespace uroce::host
