#pragma once

#include <atomic>
#include <cstdint>

#include "drivers/port/ethdev/gate.h"
#include "drivers/port/ethdev/mbuf_exchange.h"
#include "drivers/port/kernel/kernel_interface.h"
#include "port/port.h"

namespace uroce::drivers {

/// A queue pair of a DPDK port. Frames are mbufs of one segment; those that a device delivers in pieces are
/// made whole.
class EthdevQueue final : public port::PortQueue {
 public:
  struct Place {
    uint16_t port_id = 0;
    uint16_t index = 0;
    Gate* gate = nullptr;                         // of a device that changes under its pollers
    const KernelInterface* interface = nullptr;   // that the frames go through
    const std::atomic<bool>* far_open = nullptr;  // of a wire inside the process: is its port open?
    const std::atomic<bool>* removed = nullptr;   // of a device that can be taken out of the machine
    // A thread that is cancelled (pthread_cancel) within one of those would leave the device half-way.
    bool receives_by_system_calls = false;
    bool sends_by_system_calls = false;
  };

  /// `pool` is one of make_mbuf_pool().
  EthdevQueue(const Place& place, rte_mempool* pool, const MbufExchange::WireRings& rings);

  uint16_t receive(std::span<port::RxFrame> frames) override;
  void release(std::span<const port::RxFrame> frames) override;
  uint16_t allocate(std::span<port::TxFrame> frames) override;
  uint16_t transmit(std::span<const port::TxFrame> frames) override;
  void free(std::span<const port::TxFrame> frames) override;
  port::RxFrame loop(const port::TxFrame& frame) override;
  [[nodiscard]] uint64_t dropped() const override { return __atomic_load_n(&dropped_, __ATOMIC_RELAXED); }

 private:
  bool enter() { return !removed() && (place_.gate == nullptr || place_.gate->enter(place_.index)); }
  // Relaxed: it only needs to be seen some time.
  [[nodiscard]] bool removed() const {
    return place_.removed != nullptr && place_.removed->load(std::memory_order_relaxed);
  }
  void leave() {
    if (place_.gate != nullptr) place_.gate->leave(place_.index);
  }
  size_t send(std::span<const port::TxFrame> frames);
  template <typename Frame>
  void give_back(std::span<const Frame> frames);
  [[nodiscard]] bool has_no_peer() const;
  void count_drops(uint64_t count);

  const Place place_;
  MbufExchange mbufs_;
  const uint32_t capacity_;  // of each mbuf, in bytes of a frame
  uint64_t dropped_ = 0;     // written by the poller, read by anyone
};

}  // namespace uroce::drivers
