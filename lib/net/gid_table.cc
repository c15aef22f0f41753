#include "net/gid_table.h"

#include <algorithm>

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
  gids_.insert(gids_.end(), addresses.begin(), addresses.end());
  vlans_.push_back(0);
  vlans_.insert(vlans_.end(), vlans.begin(), vlans.end());
  vlans_.resize(gids_.size());
  note_vlans();
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
  note_vlans();
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
  note_vlans();
  return true;
}

void GidTable::note_vlans() {
  has_vlans_ = std::ranges::any_of(vlans_, [](uint16_t vlan) { return vlan != 0; });
}

bool GidTable::has_vlan(uint16_t vlan) const { return std::ranges::find(vlans_, vlan) != vlans_.end(); }

std::optional<size_t> GidTable::find(const Gid& gid) const {
  if (gid == Gid{}) return std::nullopt;  // that is an empty index
  const auto it = std::ranges::find(gids_, gid);
  if (it == gids_.end()) return std::nullopt;
  return static_cast<size_t>(it - gids_.begin());
}

}  // namespace uroce::net
