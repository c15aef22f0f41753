// Headers of received frames are prefetched where buffers of the own pools lie, before the mbuf says where,
// and buffers to be sent are claimed for writing six frames ahead: each line that another CPU wrote takes 150
// ns.
#include "drivers/port/ethdev/ethdev_queue.h"

#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "base/process/cancellation.h"
#include "base/threads/claim_line.h"
#include "base/values/contract.h"
#include "port/short_frame.h"

namespace uroce::drivers {
namespace {

constexpr size_t kBurst = 64;
using Mbufs = std::array<rte_mbuf*, kBurst>;

rte_mbuf* mbuf_of(const void* handle) { return static_cast<rte_mbuf*>(const_cast<void*>(handle)); }

/// Where a frame begins in an mbuf of a pool of ours, unless the device that it came from had it begin
/// elsewhere. That would be in the mbuf, which another CPU may have written.
std::byte* usual_begin(rte_mbuf* mbuf) {
  return reinterpret_cast<std::byte*>(mbuf + 1) + RTE_PKTMBUF_HEADROOM;
}

/// The frame, which begins there, is all that is in it. Of what it carried before only this matters to the
/// thread that sends it: what other fields mean is said by the flags.
void set_frame(rte_mbuf* mbuf, uint32_t length) {
  UROCE_ASSERT(length > 0 && length + RTE_PKTMBUF_HEADROOM <= mbuf->buf_len);
  mbuf->ol_flags = 0;
  mbuf->data_off = RTE_PKTMBUF_HEADROOM;
  mbuf->data_len = static_cast<uint16_t>(length);
  mbuf->pkt_len = length;
}

/// A device, or the kernel under it, may have taken a tag out of the frame; there it belongs. False: no room.
bool put_tag_back(rte_mbuf* mbuf) {
  constexpr size_t kAddresses = 2 * RTE_ETHER_ADDR_LEN;
  char* const begin = rte_pktmbuf_prepend(mbuf, RTE_VLAN_HLEN);
  if (begin == nullptr) return false;
  std::memmove(begin, begin + RTE_VLAN_HLEN, kAddresses);
  const rte_be16_t tag[] = {rte_cpu_to_be_16(RTE_ETHER_TYPE_VLAN), rte_cpu_to_be_16(mbuf->vlan_tci)};
  std::memcpy(begin + kAddresses, tag, sizeof(tag));
  mbuf->ol_flags &= ~(RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED);
  return true;
}

}  // namespace

EthdevQueue::EthdevQueue(const Place& place, rte_mempool* pool, const MbufExchange::WireRings& rings)
    : place_(place),
      mbufs_(pool, rings),
      capacity_(rte_pktmbuf_data_room_size(pool) - uint32_t{RTE_PKTMBUF_HEADROOM}) {
  UROCE_ASSERT(rte_pktmbuf_priv_size(pool) == 0);  // for usual_begin()
}

uint16_t EthdevQueue::receive(std::span<port::RxFrame> frames) {
  Mbufs mbufs;
  const auto wanted = static_cast<uint16_t>(std::min(frames.size(), kBurst));
  std::optional<CancellationDisabled> held;
  if (place_.receives_by_system_calls) held.emplace();
  if (!enter()) return 0;
  const uint16_t received = rte_eth_rx_burst(place_.port_id, place_.index, mbufs.data(), wanted);
  if (received == 0 && place_.gate != nullptr) place_.gate->found_nothing(place_.index);
  leave();
  held.reset();
  for (size_t i = 0; i < received; ++i) {
    rte_prefetch0(mbufs[i]);
    // So both are on their way at the same time.
    if (i < kPrefetched) port::prefetch_frame(usual_begin(mbufs[i]));
  }
  port::RxFrame* to = frames.data();
  for (rte_mbuf* const mbuf : std::span(mbufs).first(received)) {
    if (mbuf->nb_segs > 1 && rte_pktmbuf_linearize(mbuf) != 0) {
      rte_pktmbuf_free(mbuf);
      count_drops(1);
      continue;
    }
    if ((mbuf->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED) != 0 && !put_tag_back(mbuf)) {
      rte_pktmbuf_free(mbuf);
      count_drops(1);
      continue;
    }
    *to++ = {.data = rte_pktmbuf_mtod(mbuf, std::byte*), .length = mbuf->pkt_len, .handle = mbuf};
  }
  return static_cast<uint16_t>(to - frames.data());
}

/// rte_pktmbuf_free_bulk for mbufs of one segment.
template <typename Frame>
void EthdevQueue::give_back(std::span<const Frame> frames) {
  Mbufs mbufs;
  size_t count = 0;
  for (const Frame& frame : frames) {
    UROCE_ASSERT(mbuf_of(frame.handle)->nb_segs == 1);
    rte_mbuf* const mbuf = rte_pktmbuf_prefree_seg(mbuf_of(frame.handle));
    if (mbuf == nullptr) continue;  // another reference to it is left
    if (count == kBurst || (count > 0 && mbuf->pool != mbufs[0]->pool))
      mbufs_.give_back({mbufs.data(), std::exchange(count, 0)});
    mbufs[count++] = mbuf;
  }
  if (count > 0) mbufs_.give_back({mbufs.data(), count});
}

void EthdevQueue::release(std::span<const port::RxFrame> frames) { give_back(frames); }

uint16_t EthdevQueue::allocate(std::span<port::TxFrame> frames) {
  Mbufs mbufs;
  const unsigned count = mbufs_.take(std::span(mbufs).first(std::min(frames.size(), kBurst)));
  port::TxFrame* to = frames.data();
  for (rte_mbuf* const mbuf : std::span(mbufs).first(count)) {
    // Another CPU may have had it until now; it is written when the frame is sent.
    claim_line(mbuf);
    *to++ = {.data = usual_begin(mbuf), .capacity = capacity_, .length = 0, .handle = mbuf};
  }
  return static_cast<uint16_t>(count);
}

bool EthdevQueue::has_no_peer() const {
  if (removed()) return true;
  if (place_.interface != nullptr && !place_.interface->running()) return true;
  rte_eth_link link{};
  return rte_eth_link_get_nowait(place_.port_id, &link) == 0 && link.link_status == RTE_ETH_LINK_DOWN;
}

size_t EthdevQueue::send(std::span<const port::TxFrame> frames) {
  Mbufs mbufs;
  size_t sent = 0;
  while (sent < frames.size()) {
    const size_t count = std::min(frames.size() - sent, kBurst);
    for (size_t i = 0; i < count; ++i) {
      mbufs[i] = mbuf_of(frames[sent + i].handle);
      // What RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE promises (nic_facts.cc).
      UROCE_ASSERT(mbufs_.is_plain(mbufs[i]));
      set_frame(mbufs[i], frames[sent + i].length);
    }
    const uint16_t taken =
        rte_eth_tx_burst(place_.port_id, place_.index, mbufs.data(), static_cast<uint16_t>(count));
    sent += taken;
    if (taken < count) break;
  }
  return sent;
}

uint16_t EthdevQueue::transmit(std::span<const port::TxFrame> frames) {
  // Pairs with the release in RingWire: a sender that sees the far end open may leave frames in its rings.
  if (place_.far_open != nullptr && !place_.far_open->load(std::memory_order_acquire)) {
    free(frames);
    return static_cast<uint16_t>(frames.size());
  }
  std::optional<CancellationDisabled> held;
  if (place_.sends_by_system_calls) held.emplace();
  size_t sent = 0;
  if (enter()) {
    sent = send(frames);
    leave();
  }
  // A link that is down loses frames, as any NIC's does; keeping them would fill the sender with old ones.
  if (sent < frames.size() && has_no_peer()) {
    free(frames.subspan(sent));
    sent = frames.size();
  }
  return static_cast<uint16_t>(sent);
}

void EthdevQueue::free(std::span<const port::TxFrame> frames) { give_back(frames); }

port::RxFrame EthdevQueue::loop(const port::TxFrame& frame) {
  set_frame(mbuf_of(frame.handle), frame.length);
  return {.data = frame.data, .length = frame.length, .handle = frame.handle};
}

void EthdevQueue::count_drops(uint64_t count) {
  __atomic_store_n(&dropped_, dropped_ + count, __ATOMIC_RELAXED);
}

}  // namespace uroce::drivers
