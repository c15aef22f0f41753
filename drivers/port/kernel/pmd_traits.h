#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/values/result.h"
#include "drivers/port/kernel/devargs.h"
#include "drivers/port/kernel/kernel_interface.h"

namespace uroce::drivers {

/// Ethernet header with one VLAN tag.
inline constexpr uint32_t kLinkHeaderBytes = 14 + 4;

/// What says how large a frame a poll mode driver really carries. (What it reports is often something else.)
enum class FrameLimit : uint8_t {
  kFixed,           // PmdTraits::mtu_max
  kBufferArgument,  // the number in PmdTraits::buffer_argument, less buffer_overhead
  kInterface,       // the kernel interface in "iface" as well as the buffer argument or mtu_max
  kDevice,          // rte_eth_dev_info
};

/// What has to know of a MAC address other than the device's own.
enum class MacFilter : uint8_t {
  kNone,         // nothing filters: the peer is software that delivers everything
  kPromiscuous,  // a kernel interface, whose own address is not ours to change
  kDevice,       // hardware
};

struct DefaultArgument {
  std::string_view key;
  std::string_view value;
};

/// One row per driver; `prefix` is the beginning of the device's name, and the last row ("") is every other
/// device.
struct PmdTraits {
  std::string_view prefix;
  FrameLimit limit = FrameLimit::kDevice;
  uint32_t mtu_default = 0;               // 0: the largest
  uint32_t mtu_max = 0;                   // 0: no limit of the driver's own
  std::string_view mtu_reason = {};       // of mtu_max
  std::string_view buffer_argument = {};  // devarg that sets the size of the buffers between the two sides
  uint32_t buffer_overhead = 0;           // bytes of such a buffer that no frame gets
  uint32_t buffer_bytes = 0;  // packet buffers of this size, whatever the MTU; 0: as the frame needs
  uint32_t buffers_kept = 0;  // that the driver keeps in rings of its own, whatever their size is set to
  bool sets_mtu = true;       // false: the MTU that DPDK knows stays at 1500 and means nothing
  MacFilter mac = MacFilter::kDevice;
  std::string_view queues_argument = {};             // devarg that says how many queues to make
  std::span<const std::string_view> arguments = {};  // all there are, where the driver does not check
  std::span<const DefaultArgument> defaults = {};    // for devargs that are not given
  Grant grant = Grant::kNone;
  bool mac_is_far_ends = false;  // the MAC that the driver reports is that of the kernel at the other end
  bool iface_is_made = false;    // "iface" names the kernel interface that the device makes
  bool iface_is_socket = false;  // "iface" names the socket at which the device listens, unless client=1
  bool far_end_comes_and_goes = false;  // the device's link is up only while another process is connected
  bool control_on_interrupt_thread = false;  // start, stop and close (interrupt_thread.h)
  bool receives_by_system_calls = false;     // or may do so
  bool sends_by_system_calls = true;         // likewise
  bool is_bond = false;                      // of other devices (bond.h)
  bool has_packet_sockets = false;           // which tell of frames (port::Port::receive_events())
  bool fanout_by_process = false;            // its sockets join a group that is named after the process id
  bool isolates_when_started = false;        // told so earlier, it says yes and goes on to deliver everything
  uint32_t linger_ms = 0;  // what was sent dies with the device, so the peer gets this long to take it
};

const PmdTraits& pmd_traits(std::string_view device_name);

/// The largest and the default link MTU, and the room that a buffer needs behind the headroom.
struct LinkLimits {
  uint32_t mtu_max = 0;  // 0: ask the device
  uint32_t mtu_default = 0;
  uint32_t buffer_bytes = 0;  // at least this much, whatever the MTU; 0: the frame decides
  std::string mtu_reason = {};
};

/// Reads the devargs and the kernel interface they name. Errors: EINVAL, ENODEV (no such interface), EPERM.
Result<LinkLimits> link_limits(const PmdTraits& traits, const Devargs& devargs);

}  // namespace uroce::drivers
