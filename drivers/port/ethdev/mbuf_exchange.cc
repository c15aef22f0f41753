#include "drivers/port/ethdev/mbuf_exchange.h"

#include <algorithm>
#include <utility>

namespace uroce::drivers {
namespace {

/// Takes as many as there are, up to so many.
unsigned take_from(rte_mempool* pool, void** mbufs, unsigned wanted) {
  if (rte_mempool_get_bulk(pool, mbufs, wanted) == 0) return wanted;
  // All or nothing; when the pool runs dry, take what is left one by one.
  unsigned count = 0;
  while (count < wanted && rte_mempool_get(pool, mbufs + count) == 0) ++count;
  return count;
}

}  // namespace

MbufExchange::~MbufExchange() {
  if (kept_count_ > 0)
    rte_mempool_put_bulk(kept_[0]->pool, reinterpret_cast<void**>(kept_.data()),
                         static_cast<unsigned>(kept_count_));
  if (stock_count_ > 0)
    rte_mempool_put_bulk(pool_, reinterpret_cast<void**>(stock_.data()), static_cast<unsigned>(stock_count_));
}

unsigned MbufExchange::take(std::span<rte_mbuf*> mbufs) {
  const size_t returned = rings_.returned != nullptr ? take_returned(mbufs) : 0;
  const std::span<rte_mbuf*> others = mbufs.subspan(returned);
  const auto wanted = static_cast<unsigned>(others.size());
  const unsigned rest = wanted > 0 ? take_from(pool_, reinterpret_cast<void**>(others.data()), wanted) : 0;
  return static_cast<unsigned>(returned) + rest;
}

/// Takes as many as there are: those that came back last.
size_t MbufExchange::take_returned(std::span<rte_mbuf*> mbufs) {
  if (stock_count_ < mbufs.size()) {
    void** const end = reinterpret_cast<void**>(stock_.data() + stock_count_);
    stock_count_ += rte_ring_sc_dequeue_burst(rings_.returned, end,
                                              static_cast<unsigned>(stock_.size() - stock_count_), nullptr);
  }
  const size_t count = std::min(mbufs.size(), stock_count_);
  stock_count_ -= count;
  std::copy_n(stock_.data() + stock_count_, count, mbufs.data());
  return count;
}

void MbufExchange::give_back(std::span<rte_mbuf* const> mbufs) {
  rte_mempool* const pool = mbufs.front()->pool;
  if (!is_far_ends(pool)) {
    rte_mempool_put_bulk(pool, reinterpret_cast<void* const*>(mbufs.data()),
                         static_cast<unsigned>(mbufs.size()));
    return;
  }
  for (rte_mbuf* const mbuf : mbufs) {
    kept_[kept_count_++] = mbuf;
    if (kept_count_ == kept_.size()) return_kept();
  }
}

bool MbufExchange::is_far_ends(const rte_mempool* pool) const {
  // Relaxed: a thread that has an mbuf of that pool had it from a ring that it was put into after the pool
  // was made.
  return pool != pool_ && rings_.to_return != nullptr &&
         pool == rings_.far_pool->load(std::memory_order_relaxed);
}

void MbufExchange::return_kept() {
  void** const mbufs = reinterpret_cast<void**>(kept_.data());
  const auto count = static_cast<unsigned>(std::exchange(kept_count_, 0));
  const unsigned returned = rte_ring_sp_enqueue_burst(rings_.to_return, mbufs, count, nullptr);
  if (returned < count) rte_mempool_put_bulk(kept_[0]->pool, mbufs + returned, count - returned);
}

}  // namespace uroce::drivers
