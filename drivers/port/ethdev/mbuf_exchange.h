#pragma once

#include <rte_mbuf.h>
#include <rte_ring.h>

#include <array>
#include <atomic>
#include <span>

namespace uroce::drivers {

/// Where the empty mbufs of a queue come from, and where they go when their frames are done with: its pool.
/// But on a wire inside the process the two ends give each other back what they had from each other, in
/// rings. Through the pool a buffer would go from CPU to CPU as an element of a list, each at the price of a
/// cache line of its own.
///
/// The queue's poller.
class MbufExchange {
 public:
  /// The rings of such a wire for this queue alone.
  struct WireRings {
    rte_ring* returned = nullptr;                         // ours, from the far end
    rte_ring* to_return = nullptr;                        // the far end's ...
    const std::atomic<rte_mempool*>* far_pool = nullptr;  // ... which are of this pool
  };

  MbufExchange(rte_mempool* pool, const WireRings& rings) : pool_(pool), rings_(rings) {}
  MbufExchange(const MbufExchange&) = delete;
  MbufExchange& operator=(const MbufExchange&) = delete;
  ~MbufExchange();

  /// Fills a prefix of `mbufs`, of one segment and without other references: as many as there are.
  [[nodiscard]] unsigned take(std::span<rte_mbuf*> mbufs);
  /// Whether the mbuf is one that take() gives: of the queue's pool, of one segment, without other
  /// references.
  [[nodiscard]] bool is_plain(const rte_mbuf* mbuf) const {
    return mbuf->pool == pool_ && mbuf->nb_segs == 1 && mbuf->next == nullptr && RTE_MBUF_DIRECT(mbuf) &&
           rte_mbuf_refcnt_read(mbuf) == 1;
  }
  /// Gives back such mbufs, at least one, that are all of one pool.
  void give_back(std::span<rte_mbuf* const> mbufs);

 private:
  size_t take_returned(std::span<rte_mbuf*> mbufs);
  [[nodiscard]] bool is_far_ends(const rte_mempool* pool) const;
  void return_kept();

  rte_mempool* const pool_;
  const WireRings rings_;
  /// The far end's that are to be returned, which is worth the while when they are many: an end that sends
  /// one frame and waits for the next pays with each look at a ring that the other CPU has written to.
  std::array<rte_mbuf*, 32> kept_;
  size_t kept_count_ = 0;
  /// Ours that came back, as many as were there when the last ones had been taken.
  std::array<rte_mbuf*, 64> stock_;
  size_t stock_count_ = 0;
};

}  // namespace uroce::drivers
