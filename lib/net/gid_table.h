#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/values/identifiers.h"

namespace uroce::net {

/// The GIDs of a port as Linux makes them: index 0 the link-local IPv6 of the MAC (fe80:: and the EUI-64),
/// then the other addresses in configured order. All RoCE v2. An address keeps its index for as long as it is
/// there; one that goes leaves its index empty, and the next to come takes the first of these. A value: a
/// thread that reads one while others change theirs has a copy.
class GidTable {
 public:
  static constexpr size_t kAddedMax = 256;  // indexes up to which add() goes; verbs have eight bits for one

  GidTable() = default;
  /// `vlans`: of each address, 0 for none; or empty: all are untagged, as the link-local one always is.
  GidTable(MacAddress mac, std::span<const Gid> addresses, std::span<const uint16_t> vlans = {});

  /// Its index, or nullopt: there is no room. `gid` is not there yet.
  std::optional<size_t> add(const Gid& gid, uint16_t vlan);
  /// False: there is none, or it is the link-local one of the MAC, which stays.
  bool remove(const Gid& gid);

  /// One more than the highest index in use.
  [[nodiscard]] size_t size() const { return gids_.size(); }
  /// False for an index that is empty or beyond size().
  [[nodiscard]] bool in_use(size_t index) const { return index < size() && gids_[index] != Gid{}; }
  /// All zero at an empty index.
  [[nodiscard]] const Gid& at(size_t index) const { return gids_[index]; }
  /// The VLAN that the address lives in; 0: none.
  [[nodiscard]] uint16_t vlan_of(size_t index) const { return vlans_[index]; }
  /// Whether any address lives there.
  [[nodiscard]] bool has_vlan(uint16_t vlan) const;
  [[nodiscard]] bool has_vlans() const { return has_vlans_; }
  [[nodiscard]] std::optional<size_t> find(const Gid& gid) const;
  [[nodiscard]] bool owns(const Gid& gid) const { return find(gid).has_value(); }
  [[nodiscard]] bool owns(const Gid& gid, uint16_t vlan) const {
    const auto index = find(gid);
    return index && vlans_[*index] == vlan;
  }

 private:
  /// More are found by a hash.
  static constexpr size_t kFew = 8;
  static constexpr uint16_t kNoIndex = UINT16_MAX;

  void note_change();
  [[nodiscard]] size_t place_of(const Gid& gid) const;

  std::vector<Gid> gids_;
  std::vector<uint16_t> vlans_;   // 0 at an empty index
  std::vector<uint16_t> places_;  // indexes by hash, with linear probing; empty: there are few
  bool has_vlans_ = false;
};

/// Modified EUI-64 interface identifier of a MAC (RFC 4291 appendix A), big-endian bytes.
std::array<uint8_t, 8> eui64(MacAddress mac);

}  // namespace uroce::net
