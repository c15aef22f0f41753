#include "net/derived_mac.h"

#include "net/address_hash.h"

namespace uroce::net {

MacAddress derived_mac(const Gid& address) {
  const auto& b = address.bytes;
  if (address.is_ipv4()) return {{0x02, 0x00, b[12], b[13], b[14], b[15]}};
  const uint32_t hash = address_hash(address);
  return {{0x02, 0x01, static_cast<uint8_t>(hash >> 24), static_cast<uint8_t>(hash >> 16),
           static_cast<uint8_t>(hash >> 8), static_cast<uint8_t>(hash)}};
}

MacAddress multicast_mac(const Gid& group) {
  const auto& b = group.bytes;
  if (group.is_ipv4()) return {{0x01, 0x00, 0x5E, static_cast<uint8_t>(b[13] & 0x7F), b[14], b[15]}};
  return {{0x33, 0x33, b[12], b[13], b[14], b[15]}};
}

bool is_multicast(const Gid& gid) {
  return gid.is_ipv4() ? (gid.bytes[12] & 0xF0) == 0xE0 : gid.bytes[0] == 0xFF;
}

}  // namespace uroce::net
