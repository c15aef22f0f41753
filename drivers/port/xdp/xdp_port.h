#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/values/result.h"
#include "drivers/port/kernel/claims.h"
#include "drivers/port/kernel/kernel_interface.h"
#include "drivers/port/xdp/frame_memory.h"
#include "drivers/port/xdp/xdp_program.h"
#include "drivers/port/xdp/xdp_queue.h"
#include "drivers/port/xdp/xdp_socket.h"
#include "port/port.h"
#include "port/specification.h"

namespace uroce::drivers {

/// Opened in steps, in this order; a failed step leaves an object whose destructor undoes the earlier ones.
class XdpPort final : public port::Port {
 public:
  XdpPort(const std::string& interface, const port::Specification& specification)
      : name_(interface), specification_(specification) {}

  /// What can be known before anything is changed: permission, MTU, queues.
  Status prepare();
  /// The program is on the interface, and passes everything on.
  Status attach();
  /// The sockets are on its queues.
  Status start();

  [[nodiscard]] const port::Capabilities& capabilities() const override { return capabilities_; }
  port::PortQueue& queue(uint16_t index) override { return queues_.at(index); }
  [[nodiscard]] bool link_up() const override { return interface_->running(); }
  [[nodiscard]] uint32_t link_mbps() const override { return interface_->mbps(); }
  [[nodiscard]] bool link_changes() const override { return true; }
  [[nodiscard]] bool gone() const override { return !interface_->exists(); }
  [[nodiscard]] std::vector<int> receive_events() const override;
  void follow_addresses(std::span<const Gid> addresses) override;

 private:
  [[nodiscard]] Error error(int code, const std::string& what) const { return {code, name_ + ": " + what}; }
  Status choose_mtu();
  void describe();

  const std::string name_;  // of the interface
  const port::Specification specification_;
  unsigned index_ = 0;
  uint16_t hardware_queues_ = 0;
  Claims claims_;
  std::unique_ptr<KernelInterface> interface_;
  port::Capabilities capabilities_;
  FrameMemory::Frames frames_ = FrameMemory::Frames::kShort;
  // In this order, so that the program goes first: what comes then is the kernel's.
  std::unique_ptr<FrameMemory> memory_;
  std::vector<std::unique_ptr<XdpSocket>> sockets_;
  std::deque<XdpQueue> queues_;
  std::unique_ptr<XdpProgram> program_;
};

}  // namespace uroce::drivers
