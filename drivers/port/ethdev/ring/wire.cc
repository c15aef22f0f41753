// The two ends give each other's buffers back in rings, 32 at a time: through the mempool, a buffer from
// another CPU costs each side a cache line. Cost: up to 32 buffers stay at the far end until more come.
#include "drivers/port/ethdev/ring/wire.h"

#include <rte_lcore.h>
#include <rte_mbuf.h>

#include <cerrno>
#include <charconv>
#include <map>
#include <utility>

namespace uroce::drivers {

std::optional<uint32_t> ring_number(std::string_view device_name) {
  constexpr std::string_view kPrefix = "net_ring";
  if (!device_name.starts_with(kPrefix)) return std::nullopt;
  device_name.remove_prefix(kPrefix.size());
  uint32_t number = 0;
  const auto [end, error] =
      std::from_chars(device_name.data(), device_name.data() + device_name.size(), number);
  if (error != std::errc{} || end != device_name.data() + device_name.size()) return std::nullopt;
  return number;
}

Result<std::shared_ptr<RingWire>> RingWire::find_or_make(uint32_t number, uint16_t queues,
                                                         const std::string& port) {
  static auto* wires =
      new std::map<uint32_t, std::weak_ptr<RingWire>>;  // never destroyed, as ports may outlive it
  auto& entry = (*wires)[number];
  if (auto wire = entry.lock()) {
    if (wire->queues_ != queues) {
      return Error{EINVAL, port + ": the other end of its wire has " + std::to_string(wire->queues_) +
                               " queues, not " + std::to_string(queues)};
    }
    return wire;
  }
  auto wire = std::make_shared<RingWire>(number, queues);
  if (!wire->make_rings()) return Error{ENOMEM, port + ": no memory for its rings"};
  entry = wire;
  return wire;
}

RingWire::RingWire(uint32_t number, uint16_t queues) : number_(number), queues_(queues) {
  for (auto& made : made_) made = std::vector<std::atomic<rte_mempool*>>(queues);
}

rte_ring* RingWire::make_ring(const char* what, uint32_t end, uint16_t queue) const {
  const std::string name = std::string("uroce_") + what + "_" + std::to_string(number_) + "_" +
                           std::to_string(end) + "_" + std::to_string(queue);
  return rte_ring_create(name.c_str(), kRingFrames, static_cast<int>(rte_socket_id()),
                         RING_F_SP_ENQ | RING_F_SC_DEQ);
}

bool RingWire::make_rings() {
  for (uint32_t end = 0; end < 2; ++end) {
    pools_[end].resize(queues_);
    for (uint16_t queue = 0; queue < queues_; ++queue) {
      for (const auto& [what, rings] : {std::pair("ring", &toward_[end]), {"return", &returning_to_[end]}}) {
        rte_ring* const ring = make_ring(what, end, queue);
        if (ring == nullptr) return false;
        rings->push_back(ring);
      }
    }
  }
  return true;
}

RingWire::~RingWire() {
  for (uint32_t end = 0; end < 2; ++end) {
    drain(toward_[end]);
    drain(returning_to_[end]);
    for (rte_ring* ring : toward_[end]) rte_ring_free(ring);
    for (rte_ring* ring : returning_to_[end]) rte_ring_free(ring);
  }
}

MbufExchange::WireRings RingWire::returns(uint32_t end, uint16_t queue) const {
  return {.returned = returning_to_[end][queue],
          .to_return = returning_to_[1 - end][queue],
          .far_pool = &made_[1 - end][queue]};
}

void RingWire::drain(const std::vector<rte_ring*>& rings) {
  for (rte_ring* ring : rings) {
    for (void* mbuf = nullptr; rte_ring_dequeue(ring, &mbuf) == 0;)
      rte_pktmbuf_free(static_cast<rte_mbuf*>(mbuf));
  }
}

void RingWire::set_open(uint32_t end, bool open) {
  if (!open) open_[end].store(false, std::memory_order_release);  // pairs with the acquire in transmit()
  // No poller receives here at this moment, so this thread is the rings' consumer.
  drain(toward_[end]);
  if (open) open_[end].store(true, std::memory_order_release);  // pairs with the acquire in transmit()
}

rte_mempool* RingWire::make_pool(uint32_t end, uint16_t queue, uint32_t buffers, uint32_t data_bytes) {
  MbufPool& pool = pools_[end][queue];
  if (pool == nullptr) pool = make_mbuf_pool(buffers, data_bytes);
  made_[end][queue].store(pool.get(), std::memory_order_relaxed);  // partner: MbufExchange::is_far_ends()
  return pool.get();
}

}  // namespace uroce::drivers
