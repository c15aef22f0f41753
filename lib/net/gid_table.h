#pragma once

#include <array>
#include <cstddef>
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
  GidTable(MacAddress mac, std::span<const Gid> addresses);

  [[nodiscard]] size_t size() const { return gids_.size(); }
  [[nodiscard]] const Gid& at(size_t index) const { return gids_[index]; }
  [[nodiscard]] std::optional<size_t> find(const Gid& gid) const;
  [[nodiscard]] bool owns(const Gid& gid) const { return find(gid).has_value(); }

 private:
  std::vector<Gid> gids_;
};

/// Modified EUI-64 interface identifier of a MAC (RFC 4291 appendix A), big-endian bytes.
std::array<uint8_t, 8> eui64(MacAddress mac);

}  // namespace uroce::net
