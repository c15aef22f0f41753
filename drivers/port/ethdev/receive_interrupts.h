#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace uroce::drivers {

/// The receive interrupts of a NIC that DPDK drives, each an eventfd of the driver's. They are on only while
/// a thread waits for them, as each costs a system call, and the NIC's queue interrupts for every frame.
class ReceiveInterrupts {
 public:
  /// Takes a port that was configured with them and is started; null: its driver has none.
  static std::unique_ptr<ReceiveInterrupts> of(uint16_t port_id, uint16_t queues);

  [[nodiscard]] const std::vector<int>& descriptors() const { return descriptors_; }
  /// Turns them on: a frame that comes from now on makes a descriptor readable, and one that came before may
  /// not. One thread at a time.
  void enable();
  /// Turns them off. One thread at a time.
  void disable();

 private:
  ReceiveInterrupts(uint16_t port_id, std::vector<int> descriptors)
      : port_id_(port_id), descriptors_(std::move(descriptors)) {}

  const uint16_t port_id_;
  const std::vector<int> descriptors_;  // by queue
};

}  // namespace uroce::drivers
