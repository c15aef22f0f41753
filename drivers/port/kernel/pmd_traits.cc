#include "drivers/port/kernel/pmd_traits.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

namespace uroce::drivers {
namespace {

// With an argument that it does not know, net_memif ignores all the others, too.
constexpr std::array<std::string_view, 9> kMemifArguments = {
    "id", "role", "bsize", "rsize", "socket", "socket-abstract", "mac", "secret", "zero-copy"};
constexpr std::array kMemifDefaults = {DefaultArgument{"bsize", "8192"}};
// The three sizes go together: frames fit blocks, and the ring is framecnt / 2 deep.
constexpr std::array kAfPacketDefaults = {
    DefaultArgument{"framesz", "8192"}, DefaultArgument{"blocksz", "65536"},
    DefaultArgument{"framecnt", "512"}, DefaultArgument{"qdisc_bypass", "1"}};
// Without it both ends of a link have one MAC, the driver's.
constexpr std::array kPcapDefaults = {DefaultArgument{"phy_mac", "1"}};
// All but "server": waiting for its peer, it could not be opened, nor interrupted.
constexpr std::array<std::string_view, 10> kVirtioUserArguments = {
    "path",      "mac",      "queues",    "queue_size", "iface",
    "mrg_rxbuf", "in_order", "packed_vq", "speed",      "vectorized"};
// The driver's own 256 are less than a burst of large messages.
constexpr std::array kVirtioUserDefaults = {DefaultArgument{"queue_size", "1024"}};

constexpr std::array kTraits = {
    // Frames longer than bsize would go as chains; one buffer per frame is what is fast.
    PmdTraits{.prefix = "net_memif",
              .limit = FrameLimit::kBufferArgument,
              .buffer_argument = "bsize",
              .sets_mtu = false,
              .mac = MacFilter::kNone,
              .arguments = kMemifArguments,
              .defaults = kMemifDefaults,
              .far_end_comes_and_goes = true,
              .control_on_interrupt_thread = true,
              .linger_ms = 500},
    // Passes pointers: any size.
    PmdTraits{.prefix = "net_ring",
              .limit = FrameLimit::kFixed,
              .mtu_default = 9000,
              .mtu_max = 9216,
              .sets_mtu = false,
              .mac = MacFilter::kNone,
              .sends_by_system_calls = false},
    PmdTraits{.prefix = "net_null",
              .limit = FrameLimit::kFixed,
              .mtu_default = 9000,
              .mtu_max = 9216,
              .sets_mtu = false,
              .mac = MacFilter::kNone,
              .sends_by_system_calls = false},
    // Each frame of the kernel's ring begins with its own header and alignment.
    PmdTraits{.prefix = "net_af_packet",
              .limit = FrameLimit::kInterface,
              .buffer_argument = "framesz",
              .buffer_overhead = 96,
              .sets_mtu = false,
              .mac = MacFilter::kPromiscuous,
              .queues_argument = "qpairs",
              .defaults = kAfPacketDefaults,
              .grant = Grant::kPacketSocket,
              .has_packet_sockets = true,
              .fanout_by_process = true},
    // A frame, the kernel's headroom and the mbuf share one page; longer frames vanish without a word.
    PmdTraits{.prefix = "net_af_xdp",
              .limit = FrameLimit::kInterface,
              .mtu_max = 3400,
              .mtu_reason = "AF_XDP has one page for a frame",
              .buffer_bytes = 3712,  // the largest that leaves mbuf and pool header on the page
              .buffers_kept = 4096,
              .sets_mtu = false,
              .mac = MacFilter::kPromiscuous,
              .queues_argument = "queue_count",
              .grant = Grant::kXdpSocket,
              .receives_by_system_calls = true},
    PmdTraits{.prefix = "net_pcap",
              .limit = FrameLimit::kInterface,
              .mtu_max = 9216,
              .sets_mtu = false,
              .mac = MacFilter::kPromiscuous,
              .defaults = kPcapDefaults,
              .grant = Grant::kPacketSocket,
              .receives_by_system_calls = true},
    // At the other end of the wire is the kernel, with an interface of its own.
    PmdTraits{.prefix = "net_tap",
              .limit = FrameLimit::kFixed,
              .mtu_max = 1500,
              .mtu_reason = "net_tap carries no longer frames",
              .sets_mtu = false,
              .mac = MacFilter::kNone,
              .grant = Grant::kTunnel,
              .mac_is_far_ends = true,
              .iface_is_made = true,
              .receives_by_system_calls = true,
              .isolates_when_started = true},
    PmdTraits{.prefix = "net_vhost",
              .limit = FrameLimit::kFixed,
              .mtu_default = 9000,
              .mtu_max = 9000,
              .sets_mtu = false,
              .mac = MacFilter::kNone,
              .queues_argument = "queues",
              .iface_is_socket = true,
              .far_end_comes_and_goes = true,
              .receives_by_system_calls = true},
    PmdTraits{.prefix = "net_virtio_user",
              .limit = FrameLimit::kDevice,
              .mtu_default = 9000,
              .buffer_bytes = 9856,  // the largest frame behind virtio's own header
              .mac = MacFilter::kNone,
              .queues_argument = "queues",
              .arguments = kVirtioUserArguments,
              .defaults = kVirtioUserDefaults,
              .far_end_comes_and_goes = true,
              .receives_by_system_calls = true},
    // Its buffers are its members', whose drivers may want more than a frame needs.
    PmdTraits{.prefix = "net_bonding",
              .limit = FrameLimit::kFixed,
              .mtu_default = 1500,
              .mtu_max = 9000,
              .buffer_bytes = 9728,
              .sets_mtu = false,
              .mac = MacFilter::kPromiscuous,
              .receives_by_system_calls = true,
              .is_bond = true},
    PmdTraits{.prefix = "net_", .mtu_default = 1500, .receives_by_system_calls = true},
    // Hardware, which is written to.
    PmdTraits{.prefix = "", .mtu_default = 1500, .sends_by_system_calls = false},
};

Result<std::optional<uint32_t>> buffer_limit(const PmdTraits& traits, const Devargs& devargs) {
  if (traits.buffer_argument.empty()) return std::optional<uint32_t>{};
  const std::string key(traits.buffer_argument);
  const std::optional<uint32_t> bytes = devargs.number(key);
  constexpr uint32_t kBufferMin = 1024;
  constexpr uint32_t kBufferMax = 32768;  // an mbuf's length has 16 bits
  if (!bytes || *bytes < kBufferMin || *bytes > kBufferMax) {
    return Error{EINVAL, devargs.name() + ": " + key + "='" + std::string(devargs.value(key).value_or("")) +
                             "' is not a number from " + std::to_string(kBufferMin) + " to " +
                             std::to_string(kBufferMax)};
  }
  return std::optional<uint32_t>(*bytes);
}

}  // namespace

const PmdTraits& pmd_traits(std::string_view device_name) {
  return *std::ranges::find_if(
      kTraits, [&](const PmdTraits& traits) { return device_name.starts_with(traits.prefix); });
}

Result<LinkLimits> link_limits(const PmdTraits& traits, const Devargs& devargs) {
  if (const auto unknown = devargs.first_not_in(traits.arguments); !traits.arguments.empty() && unknown) {
    return Error{EINVAL, devargs.name() + ": unknown or unsupported argument '" + *unknown + "'"};
  }
  if (traits.limit == FrameLimit::kDevice) {
    return LinkLimits{.mtu_default = traits.mtu_default,
                      .buffer_bytes = traits.buffer_bytes,
                      .mtu_reason = "what its driver reports"};
  }
  const auto buffer = buffer_limit(traits, devargs);
  if (!buffer) return buffer.error();
  LinkLimits limits{.buffer_bytes = traits.buffer_bytes, .mtu_reason = std::string(traits.mtu_reason)};
  uint32_t mtu_max = traits.mtu_max == 0 ? UINT32_MAX : traits.mtu_max;
  const auto limit = [&](uint32_t mtu, const std::string& reason) {
    if (mtu >= mtu_max) return;
    mtu_max = mtu;
    limits.mtu_reason = reason;
  };
  if (const auto bytes = buffer.value()) {
    limits.buffer_bytes = *bytes;
    limit(*bytes - traits.buffer_overhead - kLinkHeaderBytes,
          std::string(traits.buffer_argument) + "=" + std::to_string(*bytes));
  }
  const Status granted = may_use(traits.grant, devargs.name());
  if (!granted) return granted.error();
  if (traits.limit == FrameLimit::kInterface) {
    const auto interface = devargs.value("iface");
    if (!interface || interface->empty()) return Error{EINVAL, devargs.name() + ": iface=NAME is missing"};
    const Result<uint32_t> interface_mtu = interface_mtu_of(devargs.name(), std::string(*interface));
    if (!interface_mtu) return interface_mtu.error();
    limit(*interface_mtu, "the MTU of interface " + std::string(*interface));
  }
  limits.mtu_max = mtu_max;
  limits.mtu_default = traits.mtu_default == 0 ? mtu_max : std::min(traits.mtu_default, mtu_max);
  return limits;
}

}  // namespace uroce::drivers
