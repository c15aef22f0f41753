#include "drivers/port/packet/packet_port.h"

#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "drivers/port/buffer_pool.h"
#include "drivers/port/kernel/carrier.h"
#include "drivers/port/kernel/packet_filter.h"
#include "drivers/port/kernel/pmd_traits.h"
#include "drivers/port/packet/packet.h"

namespace uroce::drivers {
namespace {

constexpr std::string_view kPrefix = "packet";
constexpr std::array<std::string_view, 2> kArguments = {"iface", "gso"};
constexpr uint32_t kMtuMin = 576;
constexpr uint32_t kMtuMax = 9216;
constexpr uint32_t kGsoFrameBytes = GsoHeader::kIpBytesMax + kLinkHeaderBytes;
static_assert(kMtuMax + kLinkHeaderBytes + GsoPeers::kMarkBytes <= Buffer::kFrameBytes);

template <typename Value>
bool set(int socket, int option, const Value& value) {
  return setsockopt(socket, SOL_PACKET, option, &value, sizeof value) == 0;
}

}  // namespace

Error PacketPort::failed(const std::string& what) const {
  return error(errno, what + ": " + std::strerror(errno));
}

Status PacketPort::read_arguments() {
  if (specification_.beside_kernel()) {
    interface_name_ = specification_.kernels_interface;
    return decide_gso("auto");
  }
  if (const auto unknown = devargs_.first_not_in(kArguments))
    return error(EINVAL, "unknown argument '" + *unknown + "' (known: iface, gso)");
  interface_name_ = devargs_.value("iface").value_or("");
  if (interface_name_.empty()) return error(EINVAL, "iface=NAME is missing");
  return decide_gso(devargs_.value("gso").value_or("auto"));
}

/// Between the two ends of a veth a GSO frame stays whole. Elsewhere a NIC may be what divides it, and would
/// have to number the segments as the kernel does.
Status PacketPort::decide_gso(std::string_view wanted) {
  if (wanted != "auto" && wanted != "on" && wanted != "off")
    return error(EINVAL, "gso='" + std::string(wanted) + "' is none of auto, on, off");
  const std::string why_not = why_no_gso(interface_name_);
  gso_ = wanted == "on" || (wanted == "auto" && why_not.empty());
  why_gso_ = wanted != "auto" ? "as configured" : why_not.empty() ? "its driver is veth" : why_not;
  return {};
}

Status PacketPort::prepare() {
  if (Status read = read_arguments(); !read) return read;
  const Result<uint32_t> mtu = interface_mtu_of(name_, interface_name_);
  if (!mtu) return mtu.error();
  capabilities_.link_mtu = *mtu;
  index_ = if_nametoindex(interface_name_.c_str());
  interface_ = KernelInterface::watch(index_);
  const auto mac = interface_mac_of(interface_name_);
  if (interface_ == nullptr || !mac)
    return error(ENODEV, "the kernel does not say what '" + interface_name_ + "' is");
  capabilities_.mac = specification_.mac.value_or(*mac);
  if (const Status granted = may_use(Grant::kPacketSocket, name_); !granted) return granted;
  if (specification_.queues == 0 || specification_.queues > kQueuesMax)
    return error(ENOTSUP, std::to_string(specification_.queues) + " queues asked for, 1 to " +
                              std::to_string(kQueuesMax) + " are possible");
  auto claims = claim_addresses(specification_, index_);
  if (!claims) return claims.error();
  claims_ = std::move(*claims);
  return {};
}

Status PacketPort::choose_mtu() {
  const uint32_t of_interface = capabilities_.link_mtu;
  const uint32_t most = std::min(of_interface, kMtuMax);
  const uint32_t mtu = specification_.mtu.value_or(most);
  const std::string reason =
      most == of_interface ? "the MTU of interface " + interface_name_ : "a buffer has room for no more";
  if (mtu < kMtuMin)
    return error(EINVAL, "mtu " + std::to_string(mtu) + " is below " + std::to_string(kMtuMin));
  if (mtu > most)
    return error(EMSGSIZE, "mtu " + std::to_string(mtu) + " is too large: at most " + std::to_string(most) +
                               " (" + reason + ")");
  capabilities_.link_mtu = mtu;
  capabilities_.link_mtu_reason = mtu == most ? reason : "as configured; at most " + std::to_string(most);
  capabilities_.frame_bytes_max = mtu + kLinkHeaderBytes;
  return {};
}

Status PacketPort::start() {
  for (uint16_t i = 0; i < specification_.queues; ++i)
    if (const Status opened = open_queue(); !opened) return opened;
  describe();
  return {};
}

Status PacketPort::open_queue() {
  // Of no protocol, so that it receives nothing until it is bound.
  const int socket = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (socket < 0) return failed("the kernel gives no packet socket");
  PacketQueue& queue =
      queues_.emplace_back(PacketQueue::Place{.socket = socket, .interface = interface_.get(), .gso = gso_});
  sockets_.push_back(socket);
  if (specification_.beside_kernel())
    if (const Status filtered = only_roce({&socket, 1}, name_); !filtered) return filtered;
  if (gso_ && !set(socket, PACKET_VNET_HDR, 1)) return failed("no GSO frames from a packet socket");
  // A GSO frame that the interface does not take whole is divided behind the queueing discipline only.
  if (!gso_) (void)set(socket, PACKET_QDISC_BYPASS, 1);
  (void)set(socket, PACKET_IGNORE_OUTGOING, 1);  // Linux 4.20; without it they are ours to drop
  const uint32_t longest = capabilities_.frame_bytes_max + static_cast<uint32_t>(GsoPeers::kMarkBytes);
  const Status ring = queue.ring().make(socket, gso_ ? kGsoFrameBytes : longest, gso_);
  if (!ring) return error(ring.error().code, ring.error().message);
  return bind_to_interface(socket);
}

Status PacketPort::bind_to_interface(int socket) {
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(index_);
  if (bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return failed("a packet socket cannot be bound to '" + interface_name_ + "'");
  if (const Status listens = listen_to_our_addresses(socket); !listens) return listens;
  return specification_.queues > 1 ? join_fanout(socket) : Status{};
}

/// Neighbour discovery is multicast. Beside the kernel the addresses are the interface's.
Status PacketPort::listen_to_our_addresses(int socket) {
  if (specification_.beside_kernel()) return {};
  packet_mreq request{};
  request.mr_ifindex = static_cast<int>(index_);
  request.mr_type = PACKET_MR_ALLMULTI;
  if (!set(socket, PACKET_ADD_MEMBERSHIP, request)) return failed("cannot receive multicast");
  if (interface_mac_of(interface_name_) == capabilities_.mac) return {};
  request.mr_type = PACKET_MR_PROMISC;
  return set(socket, PACKET_ADD_MEMBERSHIP, request) ? Status{} : failed("cannot receive for another MAC");
}

/// The kernel names the group of the first socket, so that no other has it.
Status PacketPort::join_fanout(int socket) {
  const bool first = fanout_group_ < 0;
  const int flags = PACKET_FANOUT_HASH | (first ? PACKET_FANOUT_FLAG_UNIQUEID : 0);
  if (!set(socket, PACKET_FANOUT, flags << 16 | (first ? 0 : fanout_group_)))
    return failed("its packet sockets do not share what comes");
  if (!first) return {};
  int group = 0;
  socklen_t bytes = sizeof group;
  if (getsockopt(socket, SOL_PACKET, PACKET_FANOUT, &group, &bytes) != 0)
    return failed("the kernel does not say how its packet sockets are grouped");
  fanout_group_ = group & 0xFFFF;
  return {};
}

void PacketPort::describe() {
  capabilities_.queues = specification_.queues;
  capabilities_.queues_max = kQueuesMax;
  std::string& text = capabilities_.description;
  text = "packet sockets on " + interface_name_;
  if (!specification_.remark.empty()) text += ": " + specification_.remark;
  capabilities_.offloads.push_back(std::string("GSO frames to peers that take them: ") +
                                   (gso_ ? "used" : "not used") + " (" + why_gso_ + ")");
}

std::string why_no_gso(const std::string& interface) {
  if (interface_driver_of(interface) != "veth") return "its driver is not veth";
  return kernel_is_at_least(6, 2) ? "" : "Linux 6.2 is needed";
}

bool is_packet(std::string_view devargs) { return devargs.starts_with(kPrefix); }

std::optional<MacAddress> packet_known_mac(std::string_view devargs) {
  return interface_mac_of(interface_of(devargs));
}

Result<std::unique_ptr<port::Port>> open_packet(const port::Specification& specification) {
  auto port = std::make_unique<PacketPort>(specification);
  using Step = Status (PacketPort::*)();
  try {
    for (const Step step : {&PacketPort::prepare, &PacketPort::choose_mtu, &PacketPort::start}) {
      const Status status = (*port.*step)();
      if (!status) return status.error();
    }
  } catch (const std::bad_alloc&) {
    return Error{ENOMEM, specification.devargs + ": no memory for packet buffers"};
  }
  return std::unique_ptr<port::Port>(std::move(port));
}

}  // namespace uroce::drivers
