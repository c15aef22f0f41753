// The port has AF_XDP sockets of its own instead of net_af_xdp: that driver attaches its program by netlink,
// so that it outlives a killed process, hides its maps, so that addresses cannot be followed, and has one
// queue for one socket.
// Every queue of the interface has a socket and pollers share them, because RSS may bring a peer's packets to
// any queue.
// Cost: frames of all sockets lie in one memory, and free chunks change hands 256 at a time under a lock,
// which one poller alone never takes after the start.
#include "drivers/port/xdp/xdp_port.h"

#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "drivers/port/kernel/pmd_traits.h"
#include "drivers/port/xdp/xdp.h"

namespace uroce::drivers {
namespace {

constexpr uint32_t kMtuMin = 576;

constexpr uint32_t mtu_max(FrameMemory::Frames frames) {
  return FrameMemory::bytes_max(frames) - kLinkHeaderBytes;
}
constexpr uint32_t kShortMtuMax = mtu_max(FrameMemory::Frames::kShort);
constexpr uint32_t kMtuMax = mtu_max(FrameMemory::Frames::kLong);

}  // namespace

Status XdpPort::prepare() {
  const Result<uint32_t> mtu = interface_mtu_of(name_, name_);
  if (!mtu) return mtu.error();
  index_ = if_nametoindex(name_.c_str());
  interface_ = KernelInterface::watch(index_);
  const auto mac = interface_mac_of(name_);
  if (interface_ == nullptr || !mac) return error(ENODEV, "the kernel does not say what it is");
  capabilities_.mac = *mac;
  capabilities_.link_mtu = *mtu;
  if (const Status granted = may_use(Grant::kXdpSocket, name_); !granted) return granted;
  if (const Status fits = choose_mtu(); !fits) return fits;
  hardware_queues_ = receive_queues_of(name_);
  if (specification_.queues == 0 || specification_.queues > hardware_queues_)
    return error(ENOTSUP, std::to_string(specification_.queues) + " queues asked for, 1 to " +
                              std::to_string(hardware_queues_) + " are possible by AF_XDP");
  auto claims = claim_addresses(specification_, index_);
  if (!claims) return claims.error();
  claims_ = std::move(*claims);
  return {};
}

/// A RoCE packet with the largest path MTU, 4096, needs 4200: of an interface with a larger MTU than is
/// carried nothing is missed.
Status XdpPort::choose_mtu() {
  const uint32_t of_interface = capabilities_.link_mtu;
  const uint32_t most = std::min(of_interface, kMtuMax);
  const uint32_t mtu = specification_.mtu.value_or(most);
  const std::string reason =
      most == of_interface ? "the MTU of interface " + name_ : "AF_XDP has two pages for a frame";
  if (mtu < kMtuMin)
    return error(EINVAL, "mtu " + std::to_string(mtu) + " is below " + std::to_string(kMtuMin));
  if (mtu > most)
    return error(EMSGSIZE, "mtu " + std::to_string(mtu) + " is too large: at most " + std::to_string(most) +
                               " (" + reason + ")");
  if (mtu > kShortMtuMax && !XdpSocket::has_long_frames())
    return error(EMSGSIZE, "an MTU of " + std::to_string(specification_.mtu.value_or(of_interface)) +
                               " is more than this kernel's AF_XDP carries (" + std::to_string(kShortMtuMax) +
                               ": one page for a frame, before Linux 6.6; mode \"packet\" carries it)");
  frames_ = mtu > kShortMtuMax ? FrameMemory::Frames::kLong : FrameMemory::Frames::kShort;
  capabilities_.link_mtu = mtu;
  capabilities_.link_mtu_reason = mtu == most ? reason : "as configured; at most " + std::to_string(most);
  capabilities_.frame_bytes_max = mtu + kLinkHeaderBytes;
  return {};
}

Status XdpPort::attach() {
  auto program = XdpProgram::attach({.interface = name_,
                                     .index = index_,
                                     .queues = hardware_queues_,
                                     .generic = specification_.kernel_path == port::KernelPath::kXdp});
  if (!program) return program.error();
  program_ = std::move(*program);
  return {};
}

/// Every queue of the interface has a socket, as RSS gives RoCE to any of them; the pollers share them.
Status XdpPort::start() {
  memory_ = std::make_unique<FrameMemory>(hardware_queues_ * XdpSocket::kFrames, frames_);
  const bool generic = program_->mode() == XdpProgram::Mode::kGeneric;
  for (uint16_t i = 0; i < hardware_queues_; ++i) {
    auto socket = XdpSocket::open({.interface_index = index_,
                                   .queue = i,
                                   .generic = generic,
                                   .long_frames = frames_ == FrameMemory::Frames::kLong},
                                  *memory_, i == 0 ? nullptr : sockets_.front().get());
    if (!socket) return error(socket.error().code, socket.error().message);
    sockets_.push_back(std::move(*socket));
  }
  for (uint16_t i = 0; i < specification_.queues; ++i) {
    std::vector<XdpSocket*> of_queue;
    for (size_t j = i; j < sockets_.size(); j += specification_.queues) of_queue.push_back(sockets_[j].get());
    queues_.emplace_back(*memory_, std::move(of_queue), *interface_);
  }
  for (uint16_t i = 0; i < hardware_queues_; ++i) {
    const Status delivers = program_->deliver(i, sockets_[i]->descriptor());
    if (!delivers) return error(delivers.error().code, delivers.error().message);
  }
  describe();
  return {};
}

void XdpPort::describe() {
  capabilities_.queues = specification_.queues;
  capabilities_.queues_max = hardware_queues_;
  std::string& text = capabilities_.description;
  text = "AF_XDP on " + name_ + " beside the kernel, ";
  text +=
      program_->mode() == XdpProgram::Mode::kNative ? "native" : "generic (" + program_->why_generic() + ")";
  text += sockets_.front()->zero_copy() ? ", zero-copy" : ", copied";
  if (frames_ == FrameMemory::Frames::kLong) text += ", long frames in two pieces";
  if (!specification_.remark.empty()) text += "; " + specification_.remark;
}

std::vector<int> XdpPort::receive_events() const {
  std::vector<int> descriptors;
  for (const auto& socket : sockets_) descriptors.push_back(socket->descriptor());
  return descriptors;
}

/// An address that the kernel's map has no room for is reached through the kernel's socket: not at all.
void XdpPort::follow_addresses(std::span<const Gid> addresses) { (void)program_->follow(addresses); }

Result<std::unique_ptr<port::Port>> open_xdp(const port::Specification& specification) {
  const std::string& interface = specification.kernels_interface;
  auto port = std::make_unique<XdpPort>(interface, specification);
  using Step = Status (XdpPort::*)();
  try {
    for (const Step step : {&XdpPort::prepare, &XdpPort::attach, &XdpPort::start}) {
      const Status status = (*port.*step)();
      if (!status) return status.error();
    }
  } catch (const std::bad_alloc&) {
    return Error{ENOMEM, interface + ": no memory for packet buffers"};
  }
  return std::unique_ptr<port::Port>(std::move(port));
}

}  // namespace uroce::drivers
