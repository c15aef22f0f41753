#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/values/result.h"
#include "drivers/port/ethdev/bond.h"
#include "drivers/port/ethdev/ethdev_queue.h"
#include "drivers/port/ethdev/flow_rules.h"
#include "drivers/port/ethdev/mbuf_pool.h"
#include "drivers/port/ethdev/memif/connection.h"
#include "drivers/port/ethdev/receive_interrupts.h"
#include "drivers/port/ethdev/removal_watch.h"
#include "drivers/port/ethdev/ring/end.h"
#include "drivers/port/ethdev/server_socket.h"
#include "drivers/port/kernel/claims.h"
#include "drivers/port/kernel/devargs.h"
#include "drivers/port/kernel/kernel_interface.h"
#include "drivers/port/kernel/pmd_traits.h"
#include "drivers/process/open_descriptors.h"
#include "port/port.h"
#include "port/specification.h"

struct rte_eth_conf;
struct rte_eth_dev_info;

namespace uroce::drivers {

/// Opened in steps, in this order; a failed step leaves an object whose destructor undoes the earlier ones.
class EthdevPort final : public port::Port {
 public:
  explicit EthdevPort(const port::Specification& specification);
  ~EthdevPort() override;
  EthdevPort(const EthdevPort&) = delete;
  EthdevPort& operator=(const EthdevPort&) = delete;

  /// What can be known without the device: arguments, kernel interface, socket file.
  Status prepare();
  /// The device exists in DPDK.
  Status attach();
  /// Queues, buffers, MTU.
  Status configure();
  /// Frames flow.
  Status start();

  [[nodiscard]] const port::Capabilities& capabilities() const override { return capabilities_; }
  port::PortQueue& queue(uint16_t index) override { return queues_.at(index); }
  [[nodiscard]] bool link_up() const override;
  [[nodiscard]] uint32_t link_mbps() const override;
  [[nodiscard]] bool link_changes() const override {
    return !traits_.far_end_comes_and_goes && ring_ == nullptr;
  }
  [[nodiscard]] bool gone() const override {
    return removed() || (bond_ != nullptr && !bond_->exists()) ||
           (interface_ != nullptr && !interface_->exists());
  }
  [[nodiscard]] port::FarEnd far_end() const override;
  [[nodiscard]] std::vector<int> receive_events() const override {
    return interrupts_ != nullptr ? interrupts_->descriptors() : packet_sockets_;
  }
  void arm_events() override {
    if (interrupts_ != nullptr && !removed()) interrupts_->enable();
  }
  void disarm_events() override {
    if (interrupts_ != nullptr && !removed()) interrupts_->disable();
  }
  void follow_addresses(std::span<const Gid> addresses) override;

 private:
  static constexpr uint16_t kNoPort = UINT16_MAX;

  [[nodiscard]] Error error(int code, const std::string& what) const {
    return {code, devargs_.name() + ": " + what};
  }
  Status claim_what_is_known();
  Status claim_interface(unsigned index);
  Status attach_ring_end(uint32_t number);
  Status attach_device();
  Status look_at_nic(const rte_eth_dev_info& info);
  Status stand_beside_kernel(const rte_eth_dev_info& info);
  Status isolate();
  Status make_rules();
  Status choose_mtu(const rte_eth_dev_info& info);
  void keep_interfaces_mtu();
  int configure_device(const rte_eth_dev_info& info, rte_eth_conf& configuration);
  Status set_up_queues(const rte_eth_dev_info& info);
  rte_mempool* make_pool(uint16_t queue, const rte_eth_dev_info& info);
  void choose_mac();
  void listen_to_our_addresses();
  void control(const std::function<void()>& work) const;
  int start_device();
  void wait_for_link() const;
  [[nodiscard]] bool removed() const {
    // Acquire: pairs with the release in RemovalWatch.
    return removal_ != nullptr && removal_->removed().load(std::memory_order_acquire);
  }
  [[nodiscard]] bool started() const { return memif_ != nullptr ? memif_->started() : started_; }
  void linger() const;
  void retire();
  void close_device();

  const port::Specification specification_;
  Devargs devargs_;
  const PmdTraits& traits_;
  LinkLimits limits_;
  // Given up after the device is closed.
  Claims end_claims_;
  Claims address_claims_;
  ServerSocket socket_;
  std::unique_ptr<RingEnd> ring_;           // of a net_ring
  std::unique_ptr<MemifConnection> memif_;  // of a memif
  uint16_t port_id_ = kNoPort;
  std::unique_ptr<KernelInterface> interface_;  // that the device is, or sends and receives through
  std::unique_ptr<Bond> bond_;
  std::unique_ptr<RemovalWatch> removal_;  // of a PCI device
  bool started_ = false;                   // of others than a memif
  OpenDescriptors before_;                 // what the process had before the port was opened
  std::vector<int> packet_sockets_;        // of net_af_packet; the driver's
  bool interrupts_configured_ = false;
  std::unique_ptr<ReceiveInterrupts> interrupts_;  // of a NIC, where pollers sleep and it has them
  std::unique_ptr<FlowRules> rules_;               // beside the kernel, where the NIC has them
  bool promiscuous_ = false;
  std::vector<MbufPool> pools_;  // empty with a ring
  port::Capabilities capabilities_;
  std::deque<EthdevQueue> queues_;
};

}  // namespace uroce::drivers
