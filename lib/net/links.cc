#include "net/links.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/contract.h"
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
  links_.push_back({vlan, Neighbours(std::move(options))});
}

Neighbours* Links::find(uint16_t vlan) {
  const auto found = std::ranges::find(links_, vlan, &Link::vlan);
  return found == links_.end() ? nullptr : &found->neighbours;
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

std::optional<OwnAddresses::Conflict> Links::take_conflict() {
  for (Link& link : links_)
    if (const auto conflict = link.neighbours.take_conflict()) return conflict;
  return std::nullopt;
}

void Links::pump(Instant now, port::TxBatch& batch) {
  for (Link& link : links_) link.neighbours.pump(now, batch);
}

}  // namespace uroce::net
