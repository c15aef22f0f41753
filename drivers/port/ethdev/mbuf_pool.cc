#include "drivers/port/ethdev/mbuf_pool.h"

#include <rte_lcore.h>
#include <rte_mbuf.h>

#include <atomic>
#include <string>

namespace uroce::drivers {

MbufPool make_mbuf_pool(uint32_t buffers, uint32_t data_bytes) {
  constexpr uint32_t kCachePerLcore = 128;
  static std::atomic<uint32_t> pools_made{0};  // names are unique within EAL
  const std::string name = "uroce_pool_" + std::to_string(pools_made++);
  const uint32_t room = (data_bytes + RTE_PKTMBUF_HEADROOM + 63) & ~uint32_t{63};
  return MbufPool(rte_pktmbuf_pool_create(name.c_str(), buffers, kCachePerLcore, 0,
                                          static_cast<uint16_t>(room), static_cast<int>(rte_socket_id())));
}

}  // namespace uroce::drivers
