#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

struct rte_eth_dev_info;

namespace uroce::drivers {

/// How large a buffer of the NIC's receive queue has to be to take `frame_bytes` in one piece: some receivers
/// count a buffer's size in large units, and leave out what goes beyond. `driver` is DPDK's name of it.
uint32_t nic_buffer_bytes(std::string_view driver, uint32_t frame_bytes, uint32_t least);

/// False: the receive interrupts that the driver says it has do not come.
bool receive_interrupts_come(std::string_view driver);

/// What a NIC does besides receiving and sending whole frames, and is asked to, as DPDK's bits.
struct NicServices {
  uint64_t sending = 0;  // RTE_ETH_TX_OFFLOAD_*
  uint64_t hashes = 0;   // RTE_ETH_RSS_*: by what frames are spread over the queues; 0: they are not
};
NicServices chosen_services(const rte_eth_dev_info& info, uint16_t queues);

/// For people, a line each: what is used, and what the NIC could do besides and why it is not asked to.
/// Empty: it can do nothing of the kind.
std::vector<std::string> tell_services(const rte_eth_dev_info& info, const NicServices& used,
                                       uint16_t queues);

}  // namespace uroce::drivers
