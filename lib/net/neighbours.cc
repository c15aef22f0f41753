#include "net/neighbours.h"

#include <algorithm>
#include <cerrno>

#include "base/values/contract.h"
#include "net/derived_mac.h"
#include "net/gid_table.h"
#include "net/vlan_tag.h"

namespace uroce::net {
namespace {

constexpr uint8_t kLinkLocalBits = 64;

bool has_mac(const Neighbour& neighbour, Instant now) {
  return neighbour.state == NeighbourState::kFixed ||
         (neighbour.state == NeighbourState::kKnown && now < neighbour.due);
}

}  // namespace

Neighbours::Neighbours(NeighbourOptions options)
    : options_(std::move(options)),
      addresses_(options_.addresses),
      table_(options_.capacity + options_.fixed.size()),
      asking_(options_.capacity + 1),
      known_(options_.capacity + 1) {
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

int Neighbours::find_mac(const Gid& address, Instant now, MacAddress& mac, ResolutionClient client) {
  switch (resolve(address, now, client)) {
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

Resolution Neighbours::resolve(const Gid& destination, Instant now, ResolutionClient client) {
  if (lookup(destination, now)) return Resolution::kKnown;
  const auto way = way_to(destination);
  if (!way || destination == Gid{}) return Resolution::kOffLink;
  const Gid& address = way->hop;
  Neighbour* neighbour = table_.find(address);
  if (neighbour != nullptr && neighbour->state == NeighbourState::kAsking) return Resolution::kAsking;
  if (neighbour != nullptr && neighbour->state == NeighbourState::kSilent) {
    const bool off_link = neighbour->off_link;
    erase(*neighbour);
    return off_link ? Resolution::kOffLink : Resolution::kNoAnswer;
  }
  if (!has_room_for(client)) return Resolution::kTableFull;
  // What had to give way may have moved it.
  neighbour = table_.find(address);
  if (neighbour == nullptr) neighbour = make_entry(address, true);
  if (neighbour == nullptr) return Resolution::kTableFull;
  begin_question(*neighbour, client, now);
  return Resolution::kAsking;
}

void Neighbours::begin_question(Neighbour& neighbour, ResolutionClient client, Instant now) {
  if (neighbour.state == NeighbourState::kKnown && neighbour.wanted) known_.remove(neighbour.client);
  neighbour.wanted = true;
  neighbour.client = client;
  neighbour.state = NeighbourState::kAsking;
  neighbour.asked = 0;
  neighbour.due = now;
  neighbour.since = now;
  asking_.add(client);
  deadline_ = std::min(deadline_, now);
}

void Neighbours::end_question(Neighbour& neighbour, NeighbourState state) {
  UROCE_ASSERT(neighbour.state == NeighbourState::kAsking);
  asking_.remove(neighbour.client);
  neighbour.state = state;
}

void Neighbours::erase(const Neighbour& neighbour) {
  // Others have no owner.
  if (neighbour.wanted && neighbour.state == NeighbourState::kAsking) asking_.remove(neighbour.client);
  if (neighbour.wanted && neighbour.state == NeighbourState::kKnown) known_.remove(neighbour.client);
  table_.erase(Gid(neighbour.address));
}

/// Where half of the table is asked for, the oldest question of the client with most gives way to one with
/// fewer. What waits for that question asks anew, and is refused: no client has more than its own then.
bool Neighbours::has_room_for(ResolutionClient client) {
  if (asking_.total() < (options_.capacity + 1) / 2) return true;
  const ResolutionClients::Share largest = asking_.largest();
  if (largest.count <= asking_.of(client)) return false;
  const Neighbour* oldest = nullptr;
  for (const Neighbour& candidate : table_.slots()) {
    if (candidate.state != NeighbourState::kAsking || candidate.client != largest.client) continue;
    if (oldest == nullptr || candidate.since < oldest->since) oldest = &candidate;
  }
  UROCE_ASSERT(oldest != nullptr);
  erase(*oldest);
  return true;
}

Neighbour* Neighbours::make_entry(const Gid& address, bool wanted) {
  Neighbour* neighbour = table_.insert(address);
  if (neighbour != nullptr) return neighbour;
  if (!wanted) return nullptr;
  // Full: silent ones give way first, then the one that was heard longest ago: of those that no caller
  // wanted, and then of those of the client with most. A question is worth the search.
  const ResolutionClient most = known_.largest().client;
  const Neighbour* oldest = nullptr;
  for (const Neighbour& candidate : table_.slots()) {
    if (candidate.state == NeighbourState::kSilent) {
      oldest = &candidate;
      break;
    }
    if (candidate.state != NeighbourState::kKnown) continue;
    if (candidate.wanted && candidate.client != most) continue;
    const bool goes_first =
        oldest == nullptr ||
        (candidate.wanted == oldest->wanted ? candidate.due < oldest->due : oldest->wanted);
    if (goes_first) oldest = &candidate;
  }
  if (oldest == nullptr) return nullptr;
  erase(*oldest);
  return table_.insert(address);
}

void Neighbours::learn(Neighbour& neighbour, MacAddress mac, Instant now) {
  if (neighbour.state == NeighbourState::kFixed) return;
  const bool was_known = neighbour.state == NeighbourState::kKnown;
  if (neighbour.state == NeighbourState::kAsking && neighbour.wanted)
    end_question(neighbour, NeighbourState::kKnown);
  if (neighbour.wanted && !was_known) known_.add(neighbour.client);
  neighbour.state = NeighbourState::kKnown;
  neighbour.mac = mac;
  neighbour.due = now + options_.known_for;
}

void Neighbours::learn_from_question(const Gid& address, MacAddress mac, Instant now) {
  // A neighbour that asks for us is about to talk to us. Never at the cost of another entry.
  if (owns(address) || is_multicast(mac) || link_of(address) == nullptr) return;
  Neighbour* neighbour = table_.find(address);
  if (neighbour == nullptr) neighbour = make_entry(address, false);
  if (neighbour != nullptr) learn(*neighbour, mac, now);
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
  end_question(*neighbour, NeighbourState::kSilent);
  neighbour->off_link = why == Resolution::kOffLink;
}

template <typename Meant>
void Neighbours::forget_if(Meant meant) {
  std::vector<Gid> gone;
  for (const Neighbour& neighbour : table_.slots())
    if (neighbour.state == NeighbourState::kKnown && meant(neighbour)) gone.push_back(neighbour.address);
  for (const Gid& address : gone) erase(*table_.find(address));
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
        end_question(neighbour, NeighbourState::kSilent);
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

}  // namespace uroce::net
