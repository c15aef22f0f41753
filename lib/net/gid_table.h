#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/identifiers.h"

namespace uroce::net {

/// The GIDs of a port as Linux makes them: index 0 the link-local IPv6 of the MAC (fe80:: and the EUI-64),
/// then the addresses in configured order. All RoCE v2. Built at set-up, read by anyone.
class GidTable {
 public:
  GidTable() = default;
  /// `vlans`: of each address, 0 for none; or empty: all are untagged, as the link-local one always is.
  GidTable(MacAddress mac, std::span<const Gid> addresses, std::span<const uint16_t> vlans = {});

  [[nodiscard]] size_t size() const { return gids_.size(); }
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
  std::vector<Gid> gids_;
  std::vector<uint16_t> vlans_;
  bool has_vlans_ = false;
};

/// Modified EUI-64 interface identifier of a MAC (RFC 4291 appendix A), big-endian bytes.
std::array<uint8_t, 8> eui64(MacAddress mac);

}  // namespace uroce::net
