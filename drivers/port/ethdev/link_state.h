#pragma once

#include <rte_ethdev.h>

#include <cstdint>

namespace uroce::drivers {

/// What the device says of its link now.
inline bool device_link_up(uint16_t port_id) {
  rte_eth_link link{};
  return rte_eth_link_get_nowait(port_id, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

}  // namespace uroce::drivers
