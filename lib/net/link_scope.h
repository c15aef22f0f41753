#pragma once

#include "base/values/identifiers.h"

namespace uroce::net {

/// fe80::/10: an address of one link, which means another neighbour on each.
constexpr bool is_link_local(const Gid& address) {
  return address.bytes[0] == 0xFE && address.bytes[1] >> 6 == 2;
}

/// Link-local addresses, and groups of one link or of one interface: these have a zone (RFC 4007).
constexpr bool is_of_link_scope(const Gid& address) {
  constexpr uint8_t kInterfaceScope = 1;
  constexpr uint8_t kLinkScope = 2;
  const uint8_t scope = address.bytes[1] & 0x0F;
  const bool group = address.bytes[0] == 0xFF;
  return is_link_local(address) || (group && (scope == kInterfaceScope || scope == kLinkScope));
}

}  // namespace uroce::net
