#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/values/identifiers.h"
#include "base/values/result.h"
#include "drivers/port/ethdev/mbuf_exchange.h"
#include "drivers/port/ethdev/ring/wire.h"

namespace uroce::drivers {

/// An open end of a wire: the device net_ringN.
class RingEnd {
 public:
  /// Makes the device. `name` is the device's as the user wrote it, and begins an error's message. EBUSY:
  /// this end is open; EINVAL: the other one has another number of queues; ENODEV: DPDK cannot.
  static Result<std::unique_ptr<RingEnd>> open(uint32_t number, uint16_t queues, const std::string& name);
  ~RingEnd() { close(); }
  RingEnd(const RingEnd&) = delete;
  RingEnd& operator=(const RingEnd&) = delete;

  /// For the far end, which frames are not brought to any more. The wire lives as long as the object, which
  /// the device does not outlive.
  void close() {
    if (std::exchange(open_, false)) wire_->set_open(end_, false);
  }

  [[nodiscard]] uint16_t port_id() const { return port_id_; }
  /// A MAC address that follows from the number, because net_ring has none: locally administered, and none of
  /// loopback's.
  [[nodiscard]] MacAddress mac() const;
  /// Null when there is no memory (rte_errno).
  rte_mempool* make_pool(uint16_t queue, uint32_t buffers, uint32_t data_bytes) {
    return wire_->make_pool(end_, queue, buffers, data_bytes);
  }
  [[nodiscard]] const std::atomic<bool>& far_end_open() const { return wire_->is_open(1 - end_); }
  [[nodiscard]] MbufExchange::WireRings returns(uint16_t queue) const { return wire_->returns(end_, queue); }

 private:
  RingEnd(std::shared_ptr<RingWire> wire, uint32_t number, uint16_t port_id);

  const std::shared_ptr<RingWire> wire_;
  const uint32_t number_;
  const uint32_t end_;
  const uint16_t port_id_;
  bool open_ = true;
};

}  // namespace uroce::drivers
