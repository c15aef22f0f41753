// Decision: a VLAN belongs to an address of the configuration, and each VLAN has neighbours of its own. The
// link-local address is untagged.
//
// Decision: groups are joined in every VLAN with an address of ours, since a GID names no VLAN. Members tell
// VLANs apart by the tag in the completion.
//
// Decision: in a VLAN without a link-local address of ours, MLD reports come from that of the MAC. Routers
// drop reports with another source (RFC 3810 5.2.13).
#include "net/links.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/values/contract.h"
#include "net/neighbour_discovery.h"
#include "wire/big_endian.h"
#include "wire/vlan.h"

namespace uroce::net {
namespace {

constexpr size_t kAddresses = 12;
/// What of a tagged frame is looked at: more than any message has that we understand.
constexpr size_t kFrameBytesMax = 512;

}  // namespace

Links::Links(std::vector<NeighbourOptions> options) {
  links_.reserve(options.size());
  for (NeighbourOptions& one : options) add(std::move(one));
}

void Links::add(NeighbourOptions options) {
  const uint16_t vlan = options.vlan;
  UROCE_ASSERT(find(vlan) == nullptr);
  const auto memberships = [&](bool ipv4) {
    const uint64_t seed = options.seed ^ (uint64_t{vlan} << 1 | (ipv4 ? 1u : 0u));
    return Memberships({.ipv4 = ipv4, .mac = options.mac, .vlan = vlan, .seed = seed});
  };
  Link& link = links_.emplace_back(Link{.vlan = vlan,
                                        .reports_groups = options.report_groups,
                                        .neighbours = Neighbours(options),
                                        .igmp = memberships(true),
                                        .mld = memberships(false)});
  for (const Prefix& address : link.neighbours.addresses())
    if (!address.address.is_ipv4()) link.join(solicited_node(address.address));
  for (const Gid& group : groups_) link.join(group);
}

void Links::add_address(uint16_t vlan, const Prefix& address) {
  Link* const link = link_of(vlan);
  UROCE_ASSERT(link != nullptr);
  link->neighbours.add_address(address);
  if (!address.address.is_ipv4()) link->join(solicited_node(address.address));
}

void Links::remove_address(uint16_t vlan, const Gid& address) {
  Link* const link = link_of(vlan);
  UROCE_ASSERT(link != nullptr);
  link->neighbours.remove_address(address);
  if (!address.is_ipv4()) link->leave(solicited_node(address));
}

void Links::join(const Gid& group) {
  groups_.push_back(group);
  for (Link& link : links_) link.join(group);
}

void Links::leave(const Gid& group) {
  const auto found = std::ranges::find(groups_, group);
  if (found == groups_.end()) return;
  groups_.erase(found);
  for (Link& link : links_) link.leave(group);
}

void Links::Link::join(const Gid& group) {
  if (reports_groups) (group.is_ipv4() ? igmp : mld).join(group);
}

void Links::Link::leave(const Gid& group) { (group.is_ipv4() ? igmp : mld).leave(group); }

/// From the addresses that the protocols ask for: any IPv4 address of ours on the link, or none, and a
/// link-local IPv6 address.
size_t Links::Link::report(Instant now, port::TxBatch& batch) {
  const auto reports = [&](Memberships& memberships, auto source) {
    return memberships.deadline() <= now ? memberships.pump(now, source(), batch) : 0;
  };
  return reports(igmp, [&] { return neighbours.any_ipv4(); }) +
         reports(mld, [&] { return neighbours.link_local(); });
}

Links::Link* Links::link_of(uint16_t vlan) {
  const auto found = std::ranges::find(links_, vlan, &Link::vlan);
  return found == links_.end() ? nullptr : &*found;
}

Neighbours* Links::find(uint16_t vlan) {
  Link* const link = link_of(vlan);
  return link == nullptr ? nullptr : &link->neighbours;
}

Neighbours& Links::of(uint16_t vlan) {
  Neighbours* const link = find(vlan);
  UROCE_ASSERT(link != nullptr);
  return *link;
}

void Links::forget_hop(const Gid& hop, std::optional<MacAddress> mac) {
  for (Link& link : links_) link.neighbours.forget_hop(hop, mac);
}

void Links::forget() {
  for (Link& link : links_) link.neighbours.forget();
}

std::optional<Gid> Links::source_to(const Gid& destination) const {
  std::optional<Neighbours::Source> best;
  for (const Link& link : links_) {
    const auto source = link.neighbours.source_to(destination);
    if (source && (!best || source->bits > best->bits)) best = source;
  }
  return best ? std::optional(best->address) : std::nullopt;
}

bool Links::receive(std::span<const std::byte> frame, Instant now, port::TxBatch& batch) {
  const bool tagged = frame.size() >= kAddresses + wire::kVlanTagBytes &&
                      wire::load_be16(frame.data() + kAddresses) == wire::kEtherTypeVlan;
  if (!tagged) return of(0).receive(frame, now, batch);
  Neighbours* const link = find(wire::vlan_of(wire::load_be16(frame.data() + kAddresses + 2)));
  if (link == nullptr) return false;
  std::array<std::byte, kFrameBytesMax> untagged;
  const size_t rest = std::min(frame.size() - kAddresses - wire::kVlanTagBytes, untagged.size() - kAddresses);
  std::memcpy(untagged.data(), frame.data(), kAddresses);
  std::memcpy(untagged.data() + kAddresses, frame.data() + kAddresses + wire::kVlanTagBytes, rest);
  return link->receive(std::span<const std::byte>(untagged).first(kAddresses + rest), now, batch);
}

bool Links::receive_query(std::span<const std::byte> frame, Instant now) {
  const bool tagged = frame.size() >= kAddresses + wire::kVlanTagBytes &&
                      wire::load_be16(frame.data() + kAddresses) == wire::kEtherTypeVlan;
  const uint16_t vlan = tagged ? wire::vlan_of(wire::load_be16(frame.data() + kAddresses + 2)) : uint16_t{0};
  Link* const link = link_of(vlan);
  if (link == nullptr || !link->reports_groups) return false;
  const auto query = parse_membership_query(frame, tagged ? wire::kVlanTagBytes : 0);
  return query && (is_ipv4(query->protocol) ? link->igmp : link->mld).receive(*query, now);
}

std::optional<OwnAddresses::Conflict> Links::take_conflict() {
  for (Link& link : links_)
    if (const auto conflict = link.neighbours.take_conflict()) return conflict;
  return std::nullopt;
}

size_t Links::pump(Instant now, port::TxBatch& batch) {
  size_t reports = 0;
  for (Link& link : links_) {
    link.neighbours.pump(now, batch);
    reports += link.report(now, batch);
  }
  return reports;
}

}  // namespace uroce::net
