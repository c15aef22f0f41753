#include "drivers/port/ethdev/ring/end.h"

#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_lcore.h>

#include <cerrno>
#include <utility>

namespace uroce::drivers {

Result<std::unique_ptr<RingEnd>> RingEnd::open(uint32_t number, uint16_t queues, const std::string& name) {
  auto wire = RingWire::find_or_make(number / 2, queues, name);
  if (!wire) return wire.error();
  const uint32_t end = number % 2;
  if ((*wire)->is_open(end)) return Error{EBUSY, name + ": is open already in this process"};
  auto& receive = (*wire)->toward(end);
  auto& transmit = (*wire)->toward(1 - end);
  const std::string device = "uroce" + std::to_string(number);
  const int port =
      rte_eth_from_rings(device.c_str(), receive.data(), queues, transmit.data(), queues, rte_socket_id());
  if (port < 0) return Error{ENODEV, name + ": DPDK cannot make it: " + rte_strerror(rte_errno)};
  return std::unique_ptr<RingEnd>(new RingEnd(std::move(*wire), number, static_cast<uint16_t>(port)));
}

RingEnd::RingEnd(std::shared_ptr<RingWire> wire, uint32_t number, uint16_t port_id)
    : wire_(std::move(wire)), number_(number), end_(number % 2), port_id_(port_id) {
  wire_->set_open(end_, true);
}

MacAddress RingEnd::mac() const {
  return {{0x02, 0x01, static_cast<uint8_t>(number_ >> 24), static_cast<uint8_t>(number_ >> 16),
           static_cast<uint8_t>(number_ >> 8), static_cast<uint8_t>(number_)}};
}

}  // namespace uroce::drivers
