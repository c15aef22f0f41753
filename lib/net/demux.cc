#include "net/demux.h"

#include "net/arp.h"
#include "net/derived_mac.h"
#include "net/echo.h"
#include "net/membership_message.h"
#include "net/neighbour_discovery.h"
#include "wire/big_endian.h"
#include "wire/vlan.h"

namespace uroce::net {

namespace {

constexpr size_t kTypeOffset = 12;

Classified dropped(Counter reason) { return {FrameKind::kDropped, reason}; }

}  // namespace

Classified Demux::classify_roce(const wire::Packet& packet, uint16_t vlan) const {
  if (packet.destination_mac == mac_) {
    const auto index = gids_.find(packet.destination);
    if (!index) return dropped(Counter::kDropNotOurAddress);
    return gids_.vlan_of(*index) == vlan ? Classified{FrameKind::kRoce} : dropped(Counter::kDropVlan);
  }
  const bool to_group = is_multicast(packet.destination) && packet.headers.bth.destination == kMembers &&
                        packet.destination_mac == multicast_mac(packet.destination);
  if (!to_group) return dropped(Counter::kDropNotOurAddress);
  return gids_.has_vlan(vlan) ? Classified{FrameKind::kGroup} : dropped(Counter::kDropVlan);
}

Classified Demux::classify(std::span<const std::byte> frame, wire::Packet& packet) const {
  const wire::ParseOutcome outcome = wire::parse_frame(frame, packet);
  if (outcome.result == wire::ParseResult::kDropped) return dropped(outcome.reason);
  const uint16_t vlan = wire::vlan_of(packet.vlan_tci);
  if (outcome.result == wire::ParseResult::kRoce) return classify_roce(packet, vlan);
  if (beside_kernel_) return dropped(Counter::kRxNotRoce);

  const size_t tag = packet.has_vlan ? wire::kVlanTagBytes : 0;
  const bool arp = wire::load_be16(frame.data() + kTypeOffset + tag) == kEtherTypeArp;
  const bool query = !arp && looks_like_membership_query(frame, tag);
  if (!arp && !query && !looks_like_discovery(frame, tag)) {
    if (!looks_like_echo(frame, tag)) return dropped(Counter::kRxNotRoce);
    return packet.destination_mac == mac_ ? Classified{FrameKind::kEcho}
                                          : dropped(Counter::kDropNotOurAddress);
  }
  if (packet.destination_mac != mac_ && !is_multicast(packet.destination_mac))
    return dropped(Counter::kDropNotOurAddress);
  if (!gids_.has_vlan(vlan)) return dropped(Counter::kDropVlan);
  return Classified{query ? FrameKind::kQuery : FrameKind::kNeighbour};
}

}  // namespace uroce::net
