#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/values/identifiers.h"

namespace uroce::port {

/// What a port beside the kernel gets its frames by: AF_XDP, AF_PACKET, or the better of those there are.
enum class KernelPath : uint8_t { kAuto, kXdp, kPacket };

/// What the configuration says about a port.
struct Specification {
  std::string devargs = {};          // "loopbackN[,steer=...]" or DPDK devargs ("net_memif0,role=server,...")
  uint16_t queues = 1;               // receive/transmit queue pairs wanted: exactly that many, or an error
  std::optional<uint32_t> mtu = {};  // link MTU; default: what the port carries
  std::optional<MacAddress> mac = {};  // default: the port's own
  std::vector<Gid> addresses = {};     // ours: one process alone may have an address on an interface
  /// An interface that stays the kernel's: only RoCE is taken, and nothing of the interface is changed.
  /// Empty: the port is ours alone.
  std::string kernels_interface = {};
  std::vector<Gid> kernels_addresses = {};  // that it has now
  /// The devargs name the interface's NIC itself, and its rules are what keeps RoCE from all else.
  bool by_rules = false;
  KernelPath kernel_path = KernelPath::kAuto;
  bool wants_events = false;  // Port::receive_events(), where that has to be known when it is opened
  std::string remark = {};    // why the port is what it is, for people
  /// Returns what DPDK's log complained of first since the last call; empty: nothing, or unknown.
  std::function<std::string()> dpdk_complaint = {};

  [[nodiscard]] bool beside_kernel() const { return !kernels_interface.empty(); }
};

/// Devargs of AF_PACKET on a kernel's interface. The name tells it from one that a configuration names
/// itself.
inline std::string packet_port_on(const std::string& interface) {
  return "net_af_packet_" + interface + ",iface=" + interface;
}

}  // namespace uroce::port
