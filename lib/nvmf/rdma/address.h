#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <compare>
#include <cstdint>
#include <string>

namespace uroce::nvmf {

/// The address of a host: what its connections are counted by, because it is known before the host says
/// anything else. IPv4 as IPv6-mapped.
struct RdmaAddress {
  std::array<uint8_t, 16> bytes{};

  [[nodiscard]] auto operator<=>(const RdmaAddress&) const = default;
  /// The address as people write it.
  [[nodiscard]] std::string text() const;
};

/// The address of the other side of a connection.
RdmaAddress peer_address(rdma_cm_id& id);

}  // namespace uroce::nvmf
