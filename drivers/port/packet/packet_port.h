#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/values/result.h"
#include "drivers/port/kernel/claims.h"
#include "drivers/port/kernel/devargs.h"
#include "drivers/port/kernel/kernel_interface.h"
#include "drivers/port/packet/packet_queue.h"
#include "port/port.h"
#include "port/specification.h"

namespace uroce::drivers {

/// Opened in steps, in this order; a failed step leaves an object whose destructor undoes the earlier ones.
class PacketPort final : public port::Port {
 public:
  static constexpr uint16_t kQueuesMax = 64;

  explicit PacketPort(const port::Specification& specification)
      : specification_(specification), devargs_(specification.devargs), name_(devargs_.name()) {}

  /// What can be known before there is a socket: arguments, MTU, addresses.
  Status prepare();
  Status choose_mtu();
  /// The sockets receive.
  Status start();

  [[nodiscard]] const port::Capabilities& capabilities() const override { return capabilities_; }
  port::PortQueue& queue(uint16_t index) override { return queues_.at(index); }
  [[nodiscard]] bool link_up() const override { return interface_->running(); }
  [[nodiscard]] uint32_t link_mbps() const override { return interface_->mbps(); }
  [[nodiscard]] bool link_changes() const override { return true; }
  [[nodiscard]] bool gone() const override { return !interface_->exists(); }
  [[nodiscard]] std::vector<int> receive_events() const override { return sockets_; }

 private:
  [[nodiscard]] Error error(int code, const std::string& what) const { return {code, name_ + ": " + what}; }
  [[nodiscard]] Error failed(const std::string& what) const;
  Status read_arguments();
  Status decide_gso(std::string_view wanted);
  Status open_queue();
  Status bind_to_interface(int socket);
  Status listen_to_our_addresses(int socket);
  Status join_fanout(int socket);
  void describe();

  const port::Specification specification_;
  const Devargs devargs_;
  const std::string name_;
  std::string interface_name_;
  unsigned index_ = 0;
  bool gso_ = false;
  std::string why_gso_;  // or why not
  Claims claims_;
  std::unique_ptr<KernelInterface> interface_;
  port::Capabilities capabilities_;
  std::deque<PacketQueue> queues_;
  std::vector<int> sockets_;  // the queues'
  int fanout_group_ = -1;
};

}  // namespace uroce::drivers
