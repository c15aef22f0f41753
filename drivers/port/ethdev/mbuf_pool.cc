#include "drivers/port/ethdev/mbuf_pool.h"

#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mbuf_pool_ops.h>

#include <atomic>
#include <cerrno>
#include <string>

namespace uroce::drivers {

MbufPool make_mbuf_pool(uint32_t buffers, uint32_t data_bytes) {
  constexpr uint32_t kCachePerLcore = 32;
  // What comes back last is taken first, while it is in a CPU's cache; a ring, DPDK's default, goes round
  // through all of the pool. Without a lock, since its holder may be descheduled.
  constexpr const char* kLastInFirstOut = "lf_stack";
  static std::atomic<uint32_t> pools_made{0};  // names are unique within EAL
  const std::string name = "uroce_pool_" + std::to_string(pools_made++);
  const uint32_t room = (data_bytes + RTE_PKTMBUF_HEADROOM + 63) & ~uint32_t{63};
  const auto make = [&](const char* order) {
    return MbufPool(rte_pktmbuf_pool_create_by_ops(name.c_str(), buffers, kCachePerLcore, 0,
                                                   static_cast<uint16_t>(room),
                                                   static_cast<int>(rte_socket_id()), order));
  };
  MbufPool pool = make(kLastInFirstOut);
  // An EAL that is the program's may have been started without that driver.
  if (pool == nullptr && rte_errno == EINVAL) pool = make(rte_mbuf_best_mempool_ops());
  return pool;
}

}  // namespace uroce::drivers
