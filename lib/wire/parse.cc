#include <cstring>

#include "wire/big_endian.h"
#include "wire/layers.h"
#include "wire/packet.h"

namespace uroce::wire {

ParseOutcome parse_frame(std::span<const std::byte> frame, Packet& packet) {
  if (frame.size() < kEthernetBytes) return dropped(Counter::kDropTruncated);
  std::memcpy(packet.destination_mac.bytes.data(), frame.data(), 6);
  std::memcpy(packet.source_mac.bytes.data(), frame.data() + 6, 6);
  uint16_t type = load_be16(frame.data() + 12);
  std::span<const std::byte> rest = frame.subspan(kEthernetBytes);

  packet.has_vlan = type == kEtherTypeVlan;
  packet.vlan_tci = 0;
  if (packet.has_vlan) {
    if (rest.size() < kVlanTagBytes) return dropped(Counter::kDropTruncated);
    packet.vlan_tci = load_be16(rest.data());
    type = load_be16(rest.data() + 2);
    rest = rest.subspan(kVlanTagBytes);
  }

  if (type == kEtherTypeIpv4) return parse_ipv4(rest, packet);
  if (type == kEtherTypeIpv6) return parse_ipv6(rest, packet);
  // A second tag, or a provider's: what is inside cannot be for this port.
  if (type == kEtherTypeVlan || type == kEtherTypeServiceVlan) return dropped(Counter::kDropEthernet);
  return not_roce();
}

}  // namespace uroce::wire
