// A NIC interrupts only while a thread waits (Port::arm_events()): armed for ever, each frame of a busy queue
// would cost an interrupt. Interrupts are configured only with poller.idle = "interrupt", because drivers
// take slower paths with them.
// A driver without them is refused, and so is e1000e, whose driver in DPDK 22.11 does not route the queue's
// interrupt with MSI-X.
#include "drivers/port/ethdev/receive_interrupts.h"

#include <poll.h>
#include <rte_ethdev.h>
#include <unistd.h>

namespace uroce::drivers {
namespace {

/// The count of an interrupt that was told, or that came when no thread waited.
void take_count(int descriptor) {
  pollfd readable{.fd = descriptor, .events = POLLIN, .revents = 0};
  uint64_t count;
  if (poll(&readable, 1, 0) > 0) (void)!read(descriptor, &count, sizeof count);
}

}  // namespace

std::unique_ptr<ReceiveInterrupts> ReceiveInterrupts::of(uint16_t port_id, uint16_t queues) {
  std::vector<int> descriptors;
  for (uint16_t queue = 0; queue < queues; ++queue) {
    const int descriptor = rte_eth_dev_rx_intr_ctl_q_get_fd(port_id, queue);
    if (descriptor < 0 || rte_eth_dev_rx_intr_enable(port_id, queue) != 0) return nullptr;
    rte_eth_dev_rx_intr_disable(port_id, queue);
    descriptors.push_back(descriptor);
  }
  return std::unique_ptr<ReceiveInterrupts>(new ReceiveInterrupts(port_id, std::move(descriptors)));
}

void ReceiveInterrupts::enable() {
  for (uint16_t queue = 0; queue < descriptors_.size(); ++queue) {
    take_count(descriptors_[queue]);
    rte_eth_dev_rx_intr_enable(port_id_, queue);
  }
}

void ReceiveInterrupts::disable() {
  for (uint16_t queue = 0; queue < descriptors_.size(); ++queue) rte_eth_dev_rx_intr_disable(port_id_, queue);
}

}  // namespace uroce::drivers
