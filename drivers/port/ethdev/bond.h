#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "drivers/port/kernel/kernel_interface.h"

namespace uroce::drivers {

/// A bond whose members send through interfaces of the kernel. Their drivers say that the link is up whatever
/// becomes of the interface, so the bond would go on sending into one that is down: which one it sends by is
/// chosen here.
class Bond {
 public:
  /// Null: the port is no bond, or its members are no such devices.
  static std::unique_ptr<Bond> of(uint16_t port_id);

  /// A peer may send to any member, whose interface has a MAC of its own.
  void listen_to_all() const;
  /// Sends by a member whose interface runs, and stays with it as long as that does. False: none runs. Any
  /// thread.
  bool choose_member();
  /// One of the interfaces exists.
  [[nodiscard]] bool exists() const;

 private:
  struct Member {
    uint16_t port_id;
    std::unique_ptr<KernelInterface> interface;
  };
  Bond(uint16_t port_id, std::vector<Member> members)
      : port_id_(port_id), members_(std::move(members)), sends_by_(members_.front().port_id) {}

  const uint16_t port_id_;
  const std::vector<Member> members_;
  std::atomic<uint16_t> sends_by_;
};

}  // namespace uroce::drivers
