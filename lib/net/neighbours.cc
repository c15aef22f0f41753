#include "net/neighbours.h"

#include <algorithm>
#include <cerrno>

#include "base/contract.h"
#include "net/derived_mac.h"
#include "net/gid_table.h"
#include "net/vlan_tag.h"

namespace uroce::net {
namespace {

constexpr MacAddress kBroadcast{{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}};
constexpr uint8_t kLinkLocalBits = 64;

bool has_mac(const Neighbour& neighbour, Instant now) {
  return neighbour.state == NeighbourState::kFixed ||
         (neighbour.state == NeighbourState::kKnown && now < neighbour.due);
}

}  // namespace

Neighbours::Neighbours(NeighbourOptions options)
    : options_(std::move(options)),
      addresses_(options_.addresses),
      table_(options_.capacity + options_.fixed.size()) {
  UROCE_ASSERT(options_.ask_times > 0 && options_.capacity > 0);
  if (options_.vlan == 0) addresses_.push_back({GidTable(options_.mac, {}).at(0), kLinkLocalBits});
  for (const Prefix& prefix : options_.addresses) own_.add(prefix.address, options_.probe);
  // It may be the kernel's, too, which then has the same MAC.
  if (options_.vlan == 0) own_.add(addresses_.back().address, false);
  deadline_ = own_.deadline();
  for (const NeighbourOptions::Entry& entry : options_.fixed) {
    Neighbour* neighbour = table_.find(entry.address);
    if (neighbour == nullptr) neighbour = table_.insert(entry.address);
    neighbour->state = NeighbourState::kFixed;
    neighbour->mac = entry.mac;
  }
}

void Neighbours::add_address(const Prefix& address) {
  addresses_.push_back(address);
  own_.add(address.address, options_.probe);
  deadline_ = std::min(deadline_, own_.deadline());
}

void Neighbours::remove_address(const Gid& address) {
  own_.remove(address);
  std::erase_if(addresses_, [&](const Prefix& prefix) { return prefix.address == address; });
}

Gid Neighbours::any_ipv4() const {
  const auto ours = std::ranges::find_if(addresses_, [](const Prefix& one) { return one.address.is_ipv4(); });
  return ours != addresses_.end() ? ours->address : Gid::from_ipv4({});
}

/// In a VLAN where we have none: that of our MAC, which no other host has there either.
Gid Neighbours::link_local() const {
  const auto is_link_local = [](const Prefix& one) {
    return one.address.bytes[0] == 0xFE && (one.address.bytes[1] & 0xC0) == 0x80;
  };
  const auto ours = std::ranges::find_if(addresses_, is_link_local);
  return ours != addresses_.end() ? ours->address : GidTable(options_.mac, {}).at(0);
}

bool Neighbours::owns(const Gid& address) const {
  return std::ranges::any_of(addresses_, [&](const Prefix& prefix) { return prefix.address == address; });
}

const Prefix* Neighbours::link_of(const Gid& address) const {
  const Prefix* longest = nullptr;
  for (const Prefix& prefix : addresses_)
    if (prefix.contains(address) && (longest == nullptr || prefix.bits > longest->bits)) longest = &prefix;
  return longest;
}

std::optional<Neighbours::Way> Neighbours::way_to(const Gid& address) const {
  const Neighbour* neighbour = table_.find(address);
  const bool fixed = neighbour != nullptr && neighbour->state == NeighbourState::kFixed;
  const Prefix* const link = link_of(address);
  if (fixed || options_.resolver != nullptr) return Way{address, link != nullptr ? link->bits : 0};
  std::optional<Way> way;
  if (link != nullptr) way = {address, link->bits};
  for (const Route& route : options_.routes) {
    if (!route.to.contains(address) || link_of(route.via) == nullptr) continue;
    if (!way || route.to.bits > way->bits) way = {route.via, route.to.bits};
  }
  return way;
}

std::optional<Neighbours::Source> Neighbours::source_to(const Gid& destination) const {
  if (is_multicast(destination)) {
    const auto first = std::ranges::find_if(
        addresses_, [&](const Prefix& ours) { return ours.address.is_ipv4() == destination.is_ipv4(); });
    return first != addresses_.end() ? std::optional(Source{first->address, 0}) : std::nullopt;
  }
  const auto way = way_to(destination);
  const Prefix* const ours = way ? link_of(way->hop) : nullptr;
  return ours != nullptr ? std::optional(Source{ours->address, way->bits}) : std::nullopt;
}

std::optional<MacAddress> Neighbours::lookup(const Gid& address, Instant now) const {
  if (owns(address)) return options_.mac;
  if (is_multicast(address)) return multicast_mac(address);
  const auto way = way_to(address);
  const Neighbour* neighbour = way ? table_.find(way->hop) : nullptr;
  if (neighbour == nullptr || !has_mac(*neighbour, now)) return std::nullopt;
  return neighbour->mac;
}

int Neighbours::find_mac(const Gid& address, Instant now, MacAddress& mac) {
  switch (resolve(address, now)) {
    case Resolution::kKnown:
      mac = lookup(address, now).value_or(MacAddress{});
      return 0;
    case Resolution::kAsking:
      return EINPROGRESS;
    case Resolution::kNoAnswer:
      return ETIMEDOUT;
    case Resolution::kOffLink:
      return EHOSTUNREACH;
    case Resolution::kTableFull:
      return ENOBUFS;
  }
  return EHOSTUNREACH;
}

Resolution Neighbours::resolve(const Gid& destination, Instant now) {
  if (lookup(destination, now)) return Resolution::kKnown;
  const auto way = way_to(destination);
  if (!way || destination == Gid{}) return Resolution::kOffLink;
  const Gid& address = way->hop;
  Neighbour* neighbour = table_.find(address);
  if (neighbour != nullptr && neighbour->state == NeighbourState::kAsking) return Resolution::kAsking;
  if (neighbour != nullptr && neighbour->state == NeighbourState::kSilent) {
    const bool off_link = neighbour->off_link;
    table_.erase(address);
    return off_link ? Resolution::kOffLink : Resolution::kNoAnswer;
  }
  if (asks_enough()) return Resolution::kTableFull;
  if (neighbour == nullptr) neighbour = make_entry(address, true);
  if (neighbour == nullptr) return Resolution::kTableFull;
  neighbour->wanted = true;
  neighbour->state = NeighbourState::kAsking;
  neighbour->asked = 0;
  neighbour->due = now;
  deadline_ = std::min(deadline_, now);
  return Resolution::kAsking;
}

bool Neighbours::asks_enough() {
  const auto asking = std::ranges::count(table_.slots(), NeighbourState::kAsking, &Neighbour::state);
  return static_cast<size_t>(asking) >= (options_.capacity + 1) / 2;
}

Neighbour* Neighbours::make_entry(const Gid& address, bool wanted) {
  Neighbour* neighbour = table_.insert(address);
  if (neighbour != nullptr) return neighbour;
  // Full: silent ones give way first, then, to a caller's question, the one that was heard longest ago, those
  // that no caller wanted before the others. A question is worth the search.
  const Neighbour* oldest = nullptr;
  for (const Neighbour& candidate : table_.slots()) {
    if (candidate.state == NeighbourState::kSilent) {
      oldest = &candidate;
      break;
    }
    if (candidate.state != NeighbourState::kKnown || !wanted) continue;
    const bool goes_first =
        oldest == nullptr ||
        (candidate.wanted == oldest->wanted ? candidate.due < oldest->due : oldest->wanted);
    if (goes_first) oldest = &candidate;
  }
  if (oldest == nullptr) return nullptr;
  table_.erase(Gid(oldest->address));
  return table_.insert(address);
}

void Neighbours::learn(Neighbour& neighbour, MacAddress mac, Instant now) {
  if (neighbour.state == NeighbourState::kFixed) return;
  neighbour.state = NeighbourState::kKnown;
  neighbour.mac = mac;
  neighbour.due = now + options_.known_for;
}

void Neighbours::learn_from_question(const Gid& address, MacAddress mac, Instant now) {
  // A station that asks for us is about to talk to us. Never at the cost of another entry.
  if (owns(address) || is_multicast(mac) || link_of(address) == nullptr) return;
  Neighbour* neighbour = table_.find(address);
  if (neighbour == nullptr) neighbour = make_entry(address, false);
  if (neighbour != nullptr) learn(*neighbour, mac, now);
}

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
  // An entry is updated by any ARP of its station (RFC 826), an announcement included.
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

void Neighbours::resolved(const Gid& address, const Gid& hop, MacAddress mac, Instant now) {
  Neighbour* neighbour = table_.find(address);
  if (neighbour == nullptr) return;
  learn(*neighbour, mac, now);
  neighbour->hop = hop;
}

void Neighbours::resolution_failed(const Gid& address, Resolution why) {
  Neighbour* neighbour = table_.find(address);
  if (neighbour == nullptr || neighbour->state != NeighbourState::kAsking) return;
  neighbour->state = NeighbourState::kSilent;
  neighbour->off_link = why == Resolution::kOffLink;
}

template <typename Meant>
void Neighbours::forget_if(Meant meant) {
  std::vector<Gid> gone;
  for (const Neighbour& neighbour : table_.slots())
    if (neighbour.state == NeighbourState::kKnown && meant(neighbour)) gone.push_back(neighbour.address);
  for (const Gid& address : gone) table_.erase(address);
}

void Neighbours::forget() {
  forget_if([](const Neighbour&) { return true; });
}

void Neighbours::forget_hop(const Gid& hop, std::optional<MacAddress> mac) {
  forget_if([&](const Neighbour& neighbour) { return neighbour.hop == hop && neighbour.mac != mac; });
}

void Neighbours::pump(Instant now, port::TxBatch& batch) {
  if (now < deadline_) return;
  Instant next = kNever;
  size_t questions = 0;
  for (Neighbour& neighbour : table_.slots()) {
    if (neighbour.state != NeighbourState::kAsking) continue;
    if (neighbour.due <= now && questions == kQuestionsMax) {
      next = std::min(next, now + kQuestionsEvery);
      continue;
    }
    if (neighbour.due <= now) {
      if (neighbour.asked == options_.ask_times) {
        neighbour.state = NeighbourState::kSilent;
        continue;
      }
      if (ask(neighbour, batch)) {
        ++neighbour.asked;
        ++questions;
        neighbour.due = now + options_.ask_every;
      }
    }
    next = std::min(next, neighbour.due);
  }
  pump_own(now, batch);
  deadline_ = std::min(next, own_.deadline());
}

void Neighbours::pump_own(Instant now, port::TxBatch& batch) {
  while (const auto due = own_.due(now)) {
    const bool sent = due->step == OwnAddresses::Step::kProbe ? probe_for(due->address, batch)
                                                              : announce(due->address, batch);
    if (!sent) return;
    own_.done(*due, now);
  }
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
