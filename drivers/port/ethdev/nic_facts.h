#pragma once

#include <cstdint>
#include <string>
#include <string_view>

struct rte_eth_dev_info;

namespace uroce::drivers {

/// How large a buffer of the NIC's receive queue has to be to take `frame_bytes` in one piece: some receivers
/// count a buffer's size in large units, and leave out what goes beyond. `driver` is DPDK's name of it.
uint32_t nic_buffer_bytes(std::string_view driver, uint32_t frame_bytes, uint32_t least);

/// What the NIC could do besides, in DPDK's words, and that none of it is used.
std::string offloads_of(const rte_eth_dev_info& info);

}  // namespace uroce::drivers
