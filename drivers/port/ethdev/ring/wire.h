#pragma once

#include <rte_ring.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/values/result.h"
#include "drivers/port/ethdev/mbuf_exchange.h"
#include "drivers/port/ethdev/mbuf_pool.h"

namespace uroce::drivers {

/// The wire between net_ring2k and net_ring2k+1 of this process: per queue two rings of frames and two of
/// empty mbufs that return. All of them belong to the sender's pool wherever they are, so the wire keeps the
/// pools of both ends until both have closed.
class RingWire {
 public:
  static constexpr uint32_t kRingFrames = 1024;

  /// Control path, one thread at a time (open_ethdev sees to it), like all that follows but is_open(). Both
  /// ends have the same number of queues: EINVAL. `port` begins an error's message.
  static Result<std::shared_ptr<RingWire>> find_or_make(uint32_t number, uint16_t queues,
                                                        const std::string& port);

  RingWire(uint32_t number, uint16_t queues);
  RingWire(const RingWire&) = delete;
  RingWire& operator=(const RingWire&) = delete;
  ~RingWire();

  [[nodiscard]] const std::atomic<bool>& is_open(uint32_t end) const { return open_[end]; }
  [[nodiscard]] std::vector<rte_ring*>& toward(uint32_t end) { return toward_[end]; }
  [[nodiscard]] MbufExchange::WireRings returns(uint32_t end, uint16_t queue) const;

  /// Opens or closes an end. What lies in its rings at that moment is freed.
  void set_open(uint32_t end, bool open);
  /// The pool of that end's queue, made by its first opening; null when there is no memory (rte_errno).
  rte_mempool* make_pool(uint32_t end, uint16_t queue, uint32_t buffers, uint32_t data_bytes);

 private:
  bool make_rings();
  rte_ring* make_ring(const char* what, uint32_t end, uint16_t queue) const;
  static void drain(const std::vector<rte_ring*>& rings);

  const uint32_t number_;
  const uint16_t queues_;
  std::array<std::vector<rte_ring*>, 2> toward_;
  std::array<std::vector<rte_ring*>, 2> returning_to_;
  std::array<std::vector<MbufPool>, 2> pools_;
  std::array<std::vector<std::atomic<rte_mempool*>>, 2> made_;  // the same, for the pollers of the other end
  std::array<std::atomic<bool>, 2> open_{};
};

/// The number in "net_ringN", nullopt for any other device.
std::optional<uint32_t> ring_number(std::string_view device_name);

}  // namespace uroce::drivers
