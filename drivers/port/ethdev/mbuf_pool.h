#pragma once

#include <rte_mempool.h>

#include <cstdint>
#include <memory>

namespace uroce::drivers {

struct MempoolDeleter {
  void operator()(rte_mempool* pool) const { rte_mempool_free(pool); }
};
using MbufPool = std::unique_ptr<rte_mempool, MempoolDeleter>;

/// Packet buffers with room for `data_bytes` behind the usual headroom; null when EAL's memory is short
/// (rte_errno).
MbufPool make_mbuf_pool(uint32_t buffers, uint32_t data_bytes);

}  // namespace uroce::drivers
