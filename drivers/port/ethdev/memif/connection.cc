#include "drivers/port/ethdev/memif/connection.h"

#include <rte_alarm.h>
#include <rte_ethdev.h>

#include <utility>

#include "drivers/port/ethdev/link_state.h"

namespace uroce::drivers {
namespace {

constexpr uint64_t kLookEveryUs = 20'000;
constexpr uint32_t kLooksForConnecting = 10;  // a connection that has begun is given this long

}  // namespace

Result<std::unique_ptr<MemifConnection>> MemifConnection::make(Devargs& devargs, const MemifEnd& end,
                                                               uint16_t queues) {
  auto socket = MemifSocket::make(devargs);
  if (!socket) return socket.error();
  return std::unique_ptr<MemifConnection>(new MemifConnection(std::move(*socket), !end.server, queues));
}

int MemifConnection::start(uint16_t port_id, std::function<void()> connecting) {
  port_id_ = port_id;
  connecting_ = std::move(connecting);
  socket_->relay().attach(gate_, [this] { note_connection(); });
  const int failed = start_device();
  look_again_later();
  return client_ ? 0 : failed;
}

int MemifConnection::start_device() {
  const int failed = socket_->start([this] { return rte_eth_dev_start(port_id_); });
  started_ = failed == 0;
  return failed;
}

void MemifConnection::retire() {
  rte_eal_alarm_cancel(look, this);
  socket_->relay().detach(gate_);
  socket_->retire();
}

void MemifConnection::close(uint16_t port_id) {
  if (std::exchange(started_, false)) rte_eth_dev_stop(port_id);
  socket_->closing();
  rte_eth_dev_close(port_id);
  socket_->closed();
  socket_.reset();
}

void MemifConnection::look_again_later() { rte_eal_alarm_set(kLookEveryUs, look, this); }

void MemifConnection::look(void* connection) {
  auto& self = *static_cast<MemifConnection*>(connection);
  if (self.client_) self.keep_connected();
  self.socket_->relay().look();
  self.looks_up_ = device_link_up(self.port_id_) ? self.looks_up_ + 1 : 0;
  // Not only at the first look: DPDK is still about it then.
  if (self.looks_up_ > 0 && self.looks_up_ <= kLooksForConnecting) self.connecting_();
  self.look_again_later();
}

void MemifConnection::note_connection() {
  const bool up = device_link_up(port_id_);
  if (up) gate_.open();
  connected_.store(up, std::memory_order_release);  // pairs with connected(): after the gate
}

void MemifConnection::keep_connected() {
  looks_down_ = device_link_up(port_id_) ? 0 : looks_down_ + 1;
  if (started_ && looks_down_ < kLooksForConnecting) return;
  if (started_) {
    gate_.close();
    rte_eth_dev_stop(port_id_);
  }
  looks_down_ = 0;
  start_device();
}

}  // namespace uroce::drivers
