#include "service/outgoing.h"

#include "engine/poller/gsi.h"
#include "host/shared_device.h"
#include "net/derived_mac.h"
#include "service/management.h"
#include "wire/vlan.h"

namespace uroce::service {
namespace {

constexpr QpNumber kServices = engine::Gsi::kNumber;

/// A message that is of the program's own connection, or of none, and names no other program's queue pair.
bool is_own_message(const wire::Packet& packet, const Sender& sender) {
  const auto message = management_of(packet);
  if (!message) return false;
  const bool own_id =
      message->sender == wire::CommId{} || sender.program.owns(host::owner_of_comm_id(message->sender.value));
  const ClientSession* const owner = sender.owners.of(message->queue_pair);
  return own_id && (owner == nullptr || owner == &sender.program);
}

bool is_own_number(const wire::Packet& packet, const Sender& sender) {
  if (!packet.row->headers.has(wire::Header::kDeth)) return true;
  const QpNumber source = packet.headers.deth.source;
  return sender.program.owns(source) || (source == kServices && packet.headers.bth.destination == kServices);
}

Way way_of(const wire::Packet& packet, const Identity& device, uint16_t vlan) {
  if (packet.destination_mac == device.mac && device.gids.owns(packet.destination, vlan)) return Way::kSelf;
  const bool to_group = net::is_multicast(packet.destination) &&
                        packet.destination_mac == net::multicast_mac(packet.destination);
  return to_group ? Way::kGroup : Way::kUplink;
}

}  // namespace

std::variant<Way, Drop> check_outgoing(std::span<const std::byte> frame, const Identity& device,
                                       const Sender& sender, wire::Packet& packet) {
  const wire::ParseOutcome outcome = wire::parse_frame(frame, packet);
  if (outcome.result == wire::ParseResult::kNotRoce) return Drop::kNotRoce;
  if (outcome.result == wire::ParseResult::kDropped) return Drop::kMalformed;
  const uint16_t vlan = wire::vlan_of(packet.vlan_tci);
  if (packet.source_mac != device.mac) return Drop::kSourceMac;
  if (!device.gids.owns(packet.source, vlan)) return Drop::kSourceAddress;
  if (!is_own_number(packet, sender)) return Drop::kSourceNumber;
  if (packet.headers.bth.destination == kServices && !is_own_message(packet, sender))
    return Drop::kManagement;
  return way_of(packet, device, vlan);
}

}  // namespace uroce::service
