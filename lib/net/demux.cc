#include "net/demux.h"

#include "net/arp.h"
#include "net/derived_mac.h"
#include "net/neighbour_discovery.h"
#include "wire/big_endian.h"

namespace uroce::net {

Classified Demux::classify(std::span<const std::byte> frame, wire::Packet& packet) const {
  const wire::ParseOutcome outcome = wire::parse_frame(frame, packet);
  if (outcome.result == wire::ParseResult::kRoce) {
    const bool ours = packet.destination_mac == mac_ && gids_.owns(packet.destination);
    if (!ours && is_multicast(packet.destination) && packet.headers.bth.destination == kMembers &&
        packet.destination_mac == multicast_mac(packet.destination))
      return {FrameKind::kGroup};
    return ours ? Classified{FrameKind::kRoce} : Classified{FrameKind::kDropped, Counter::kDropNotOurAddress};
  }
  if (outcome.result == wire::ParseResult::kDropped) return {FrameKind::kDropped, outcome.reason};

  const bool arp = wire::load_be16(frame.data() + 12) == kEtherTypeArp;
  if (!arp && !looks_like_discovery(frame)) return {FrameKind::kDropped, Counter::kRxNotRoce};
  const bool heard = packet.destination_mac == mac_ || is_multicast(packet.destination_mac);
  return heard ? Classified{FrameKind::kNeighbour}
               : Classified{FrameKind::kDropped, Counter::kDropNotOurAddress};
}

}  // namespace uroce::net
