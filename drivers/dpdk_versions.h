#pragma once

#include <rte_eth_bond.h>
#include <rte_flow.h>
#include <rte_telemetry.h>
#include <rte_version.h>

#include <algorithm>
#include <cstdint>
#include <span>

// What DPDK renamed between 22.11 and 24.11, under one name. Nothing else asks for DPDK's version.

namespace uroce::dpdk {

inline int add_to_dictionary(rte_tel_data* dictionary, const char* name, uint64_t value) {
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
  return rte_tel_data_add_dict_uint(dictionary, name, value);
#else
  return rte_tel_data_add_dict_u64(dictionary, name, value);
#endif
}

/// The members of a bond: how many, or a negative error.
inline int bond_members(uint16_t port_id, std::span<uint16_t> members) {
  const auto room = static_cast<uint16_t>(members.size());
#if RTE_VERSION >= RTE_VERSION_NUM(23, 11, 0, 0)
  return rte_eth_bond_members_get(port_id, members.data(), room);
#else
  return rte_eth_bond_slaves_get(port_id, members.data(), room);
#endif
}

inline void set_destination(rte_flow_item_ipv6& item, std::span<const uint8_t, 16> address) {
#if RTE_VERSION >= RTE_VERSION_NUM(24, 11, 0, 0)
  std::ranges::copy(address, item.hdr.dst_addr.a);
#else
  std::ranges::copy(address, item.hdr.dst_addr);
#endif
}

}  // namespace uroce::dpdk
