#pragma once

#include <rte_ethdev.h>

#include <cstdint>

namespace uroce::drivers {

/// What the device says of its link now.
inline bool device_link_up(uint16_t port_id) {
  rte_eth_link link{};
  return rte_eth_link_get_nowait(port_id, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

/// Mbit/s by which the device sends now; 0: it does not say.
inline uint32_t device_link_mbps(uint16_t port_id) {
  rte_eth_link link{};
  const bool known = rte_eth_link_get_nowait(port_id, &link) == 0 && link.link_status == RTE_ETH_LINK_UP &&
                     link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN;
  return known ? link.link_speed : 0;
}

}  // namespace uroce::drivers
