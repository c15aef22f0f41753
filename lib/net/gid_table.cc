// Decision: more than eight addresses of a port are found by a hash. One by one is long for hundreds
// (`perf/run --only peers_1000`).
#include "net/gid_table.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace uroce::net {

std::array<uint8_t, 8> eui64(MacAddress mac) {
  const auto& m = mac.bytes;
  return {static_cast<uint8_t>(m[0] ^ 0x02), m[1], m[2], 0xFF, 0xFE, m[3], m[4], m[5]};
}

GidTable::GidTable(MacAddress mac, std::span<const Gid> addresses, std::span<const uint16_t> vlans) {
  Gid link_local;
  link_local.bytes[0] = 0xFE;
  link_local.bytes[1] = 0x80;
  std::ranges::copy(eui64(mac), link_local.bytes.begin() + 8);
  gids_.push_back(link_local);
  vlans_.push_back(0);
  for (size_t i = 0; i < addresses.size(); ++i) {
    const uint16_t vlan = i < vlans.size() ? vlans[i] : uint16_t{0};
    if (addresses[i] == link_local && vlan == 0) continue;
    gids_.push_back(addresses[i]);
    vlans_.push_back(vlan);
  }
  note_change();
}

std::optional<size_t> GidTable::add(const Gid& gid, uint16_t vlan) {
  const auto index = static_cast<size_t>(std::ranges::find(gids_, Gid{}) - gids_.begin());
  if (index >= kAddedMax) return std::nullopt;
  if (index == size()) {
    gids_.emplace_back();
    vlans_.emplace_back();
  }
  gids_[index] = gid;
  vlans_[index] = vlan;
  note_change();
  return index;
}

bool GidTable::remove(const Gid& gid) {
  const auto index = find(gid);
  if (!index || *index == 0) return false;
  gids_[*index] = {};
  vlans_[*index] = 0;
  while (gids_.back() == Gid{}) {
    gids_.pop_back();
    vlans_.pop_back();
  }
  note_change();
  return true;
}

void GidTable::note_change() {
  has_vlans_ = std::ranges::any_of(vlans_, [](uint16_t vlan) { return vlan != 0; });
  places_.clear();
  if (size() <= kFew) return;
  // At most half full, so that a search is short and ends.
  places_.resize(std::bit_ceil(2 * size()), kNoIndex);
  for (size_t index = 0; index < size(); ++index) {
    if (!in_use(index)) continue;
    size_t place = place_of(gids_[index]);
    while (places_[place] != kNoIndex) place = (place + 1) & (places_.size() - 1);
    places_[place] = static_cast<uint16_t>(index);
  }
}

/// Where a search for it begins.
size_t GidTable::place_of(const Gid& gid) const {
  std::array<uint64_t, 2> words{};
  std::memcpy(words.data(), gid.bytes.data(), sizeof words);
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15;
  uint64_t hash = (words[0] * kMultiplier) ^ words[1];
  hash ^= hash >> 32;  // IPv4 addresses differ in the highest bits alone
  return (hash * kMultiplier >> 32) & (places_.size() - 1);
}

bool GidTable::has_vlan(uint16_t vlan) const { return std::ranges::find(vlans_, vlan) != vlans_.end(); }

std::optional<size_t> GidTable::find(const Gid& gid) const {
  if (gid == Gid{}) return std::nullopt;  // that is an empty index
  if (places_.empty()) {
    const auto it = std::ranges::find(gids_, gid);
    if (it == gids_.end()) return std::nullopt;
    return static_cast<size_t>(it - gids_.begin());
  }
  for (size_t place = place_of(gid); places_[place] != kNoIndex; place = (place + 1) & (places_.size() - 1)) {
    if (gids_[places_[place]] == gid) return places_[place];
  }
  return std::nullopt;
}

}  // namespace uroce::net
