// What neighbours say to each other about their addresses: ARP and neighbour discovery, received and sent.
#include "base/values/contract.h"
#include "net/derived_mac.h"
#include "net/gid_table.h"
#include "net/neighbours.h"
#include "net/vlan_tag.h"

namespace uroce::net {
namespace {

constexpr MacAddress kBroadcast{{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}};

}  // namespace

bool Neighbours::receive(std::span<const std::byte> frame, Instant now, port::TxBatch& batch) {
  UROCE_ASSERT(options_.resolver == nullptr);
  if (const auto arp = parse_arp(frame)) return receive_arp(*arp, now, batch);
  const auto discovery = parse_discovery(frame);
  if (!discovery) return false;
  return discovery->advertisement ? receive_advertisement(*discovery, now, batch)
                                  : receive_solicitation(*discovery, now, batch);
}

bool Neighbours::receive_arp(const ArpMessage& message, Instant now, port::TxBatch& batch) {
  const bool for_us = owns(message.target);
  if (contested(message.sender, message.sender_mac, now, batch)) return true;
  Neighbour* sender = table_.find(message.sender);
  // An entry is updated by any ARP of its neighbour (RFC 826), an announcement included.
  if (sender != nullptr && !owns(message.sender)) learn(*sender, message.sender_mac, now);
  if (message.reply) return sender != nullptr;
  if (!for_us) return sender != nullptr;
  learn_from_question(message.sender, message.sender_mac, now);
  (void)send({.reply = true,
              .sender_mac = options_.mac,
              .sender = message.target,
              .target_mac = message.sender_mac,
              .target = message.sender},
             message.sender_mac, batch);
  return true;
}

bool Neighbours::receive_solicitation(const DiscoveryMessage& message, Instant now, port::TxBatch& batch) {
  if (!owns(message.target)) return false;
  const bool duplicate_detection = message.source == Gid{};
  const MacAddress resolver = message.link_address.value_or(message.source_mac);
  if (!duplicate_detection) learn_from_question(message.source, resolver, now);
  const Gid answer_to = duplicate_detection ? all_nodes() : message.source;
  (void)send({.advertisement = true,
              .source_mac = options_.mac,
              .destination_mac = duplicate_detection ? multicast_mac(answer_to) : resolver,
              .source = message.target,
              .destination = answer_to,
              .target = message.target,
              .link_address = options_.mac,
              .solicited = !duplicate_detection,
              .override = true},
             batch);
  return true;
}

bool Neighbours::receive_advertisement(const DiscoveryMessage& message, Instant now, port::TxBatch& batch) {
  if (contested(message.target, message.link_address.value_or(message.source_mac), now, batch)) return true;
  Neighbour* neighbour = table_.find(message.target);
  if (neighbour == nullptr || owns(message.target)) return false;
  const bool known = neighbour->state == NeighbourState::kKnown;
  // RFC 4861 7.2.5: without the override flag a different address does not replace a known one.
  const MacAddress mac = message.link_address.value_or(known ? neighbour->mac : message.source_mac);
  if (is_multicast(mac) || (known && !message.override && mac != neighbour->mac)) return false;
  learn(*neighbour, mac, now);
  return true;
}

bool Neighbours::probe_for(const Gid& address, port::TxBatch& batch) const {
  if (address.is_ipv4())
    return send({.sender_mac = options_.mac, .sender = Gid::from_ipv4({}), .target = address}, kBroadcast,
                batch);
  const Gid group = solicited_node(address);
  return send({.source_mac = options_.mac,
               .destination_mac = multicast_mac(group),
               .destination = group,
               .target = address},
              batch);
}

bool Neighbours::announce(const Gid& address, port::TxBatch& batch) const {
  if (address.is_ipv4())
    return send({.sender_mac = options_.mac, .sender = address, .target = address}, kBroadcast, batch);
  return send({.advertisement = true,
               .source_mac = options_.mac,
               .destination_mac = multicast_mac(all_nodes()),
               .source = address,
               .destination = all_nodes(),
               .target = address,
               .link_address = options_.mac,
               .override = true},
              batch);
}

bool Neighbours::contested(const Gid& address, MacAddress by, Instant now, port::TxBatch& batch) {
  if (by == options_.mac || !owns(address)) return false;
  if (own_.note_conflict(address, by, now)) (void)announce(address, batch);
  return true;
}

bool Neighbours::ask(const Neighbour& neighbour, port::TxBatch& batch) {
  if (options_.resolver != nullptr) {
    options_.resolver->ask(neighbour.address, options_.vlan);
    return true;
  }
  const Prefix* const link = link_of(neighbour.address);
  if (link == nullptr) return true;  // our address has gone meanwhile: there will be no answer
  const Gid& ours = link->address;
  if (neighbour.address.is_ipv4())
    return send({.sender_mac = options_.mac, .sender = ours, .target = neighbour.address}, kBroadcast, batch);
  const Gid group = solicited_node(neighbour.address);
  return send({.source_mac = options_.mac,
               .destination_mac = multicast_mac(group),
               .source = ours,
               .destination = group,
               .target = neighbour.address,
               .link_address = options_.mac},
              batch);
}

bool Neighbours::send(const ArpMessage& message, MacAddress to, port::TxBatch& batch) const {
  port::TxFrame* const frame = batch.next();
  if (frame == nullptr) return false;
  write_arp({frame->data, frame->capacity}, message, to);
  frame->length = kArpFrameBytes;
  commit(*frame, batch);
  return true;
}

bool Neighbours::send(const DiscoveryMessage& message, port::TxBatch& batch) const {
  port::TxFrame* const frame = batch.next();
  if (frame == nullptr) return false;
  frame->length = write_discovery({frame->data, frame->capacity}, message);
  commit(*frame, batch);
  return true;
}

void Neighbours::commit(port::TxFrame& frame, port::TxBatch& batch) const {
  if (options_.vlan != 0) frame.length = put_tag({frame.data, frame.capacity}, frame.length, options_.vlan);
  batch.commit();
}

}  // namespace uroce::net
