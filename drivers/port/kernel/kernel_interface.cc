#include "drivers/port/kernel/kernel_interface.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace uroce::drivers {
namespace {

Status may_open_socket(int family, const std::string& port) {
  const int socket_fd = socket(family, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (socket_fd >= 0) {
    close(socket_fd);
    return {};
  }
  const std::string kind = family == AF_XDP ? "AF_XDP" : "packet";
  if (errno == EAFNOSUPPORT) return Error{errno, port + ": this kernel has no " + kind + " sockets"};
  return Error{errno, port + ": no permission to open " + kind + " sockets (CAP_NET_RAW is needed)"};
}

bool has_capability(unsigned capability) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> data{};
  if (syscall(SYS_capget, &header, data.data()) != 0) return true;  // then the driver says it
  return (data[capability / 32].effective >> capability % 32 & 1) != 0;
}

Status may_make_tunnel(const std::string& port) {
  constexpr const char* kDevice = "/dev/net/tun";
  const int fd = open(kDevice, O_RDWR | O_CLOEXEC);
  if (fd < 0) return Error{errno, port + ": cannot open " + kDevice + ": " + std::strerror(errno)};
  close(fd);
  if (!has_capability(CAP_NET_ADMIN)) {
    return Error{EPERM, port + ": no permission to make an interface (CAP_NET_ADMIN is needed)"};
  }
  return {};
}

}  // namespace

Result<uint32_t> interface_mtu_of(const std::string& port, const std::string& interface) {
  ifreq request{};
  if (interface.size() >= sizeof request.ifr_name || if_nametoindex(interface.c_str()) == 0) {
    return Error{ENODEV, port + ": there is no interface '" + interface + "'"};
  }
  std::memcpy(request.ifr_name, interface.data(), interface.size());
  const int socket_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket_fd < 0) return Error{errno, port + ": cannot ask for the MTU of '" + interface + "'"};
  const int failed = ioctl(socket_fd, SIOCGIFMTU, &request);
  const int code = errno;
  close(socket_fd);
  if (failed != 0) return Error{code, port + ": cannot read the MTU of '" + interface + "'"};
  return static_cast<uint32_t>(request.ifr_mtu);
}

std::optional<MacAddress> interface_mac_of(const std::string& interface) {
  ifreq request{};
  if (interface.size() >= sizeof request.ifr_name) return std::nullopt;
  interface.copy(request.ifr_name, sizeof request.ifr_name - 1);
  const int socket_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket_fd < 0) return std::nullopt;
  const int failed = ioctl(socket_fd, SIOCGIFHWADDR, &request);
  close(socket_fd);
  MacAddress mac;
  if (failed != 0 || request.ifr_hwaddr.sa_family != ARPHRD_ETHER) return std::nullopt;
  std::memcpy(mac.bytes.data(), request.ifr_hwaddr.sa_data, mac.bytes.size());
  return mac;
}

uint16_t receive_queues_of(const std::string& interface) {
  ifreq request{};
  if (interface.size() >= sizeof request.ifr_name) return 1;
  interface.copy(request.ifr_name, sizeof request.ifr_name - 1);
  const int socket_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket_fd < 0) return 1;
  ethtool_channels channels{};
  channels.cmd = ETHTOOL_GCHANNELS;
  request.ifr_data = reinterpret_cast<char*>(&channels);
  const int failed = ioctl(socket_fd, SIOCETHTOOL, &request);
  close(socket_fd);
  if (failed != 0) return 1;
  return static_cast<uint16_t>(std::clamp<uint32_t>(channels.rx_count + channels.combined_count, 1, 1024));
}

std::string interface_driver_of(const std::string& interface) {
  ifreq request{};
  if (interface.size() >= sizeof request.ifr_name) return {};
  interface.copy(request.ifr_name, sizeof request.ifr_name - 1);
  const int socket_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket_fd < 0) return {};
  ethtool_drvinfo told{};
  told.cmd = ETHTOOL_GDRVINFO;
  request.ifr_data = reinterpret_cast<char*>(&told);
  const int failed = ioctl(socket_fd, SIOCETHTOOL, &request);
  close(socket_fd);
  if (failed != 0) return {};
  return {told.driver, strnlen(told.driver, sizeof told.driver)};
}

bool kernel_is_at_least(unsigned major, unsigned minor) {
  utsname name{};
  unsigned told_major = 0;
  unsigned told_minor = 0;
  if (uname(&name) != 0 || std::sscanf(name.release, "%u.%u", &told_major, &told_minor) != 2) return false;
  return told_major != major ? told_major > major : told_minor >= minor;
}

Status may_use(Grant grant, const std::string& port) {
  switch (grant) {
    case Grant::kNone:
      return {};
    case Grant::kPacketSocket:
      return may_open_socket(AF_PACKET, port);
    case Grant::kXdpSocket:
      return may_open_socket(AF_XDP, port);
    case Grant::kTunnel:
      return may_make_tunnel(port);
  }
  return {};
}

std::unique_ptr<KernelInterface> KernelInterface::watch(unsigned index) {
  const int socket_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket_fd < 0) return nullptr;
  return std::unique_ptr<KernelInterface>(new KernelInterface(index, socket_fd));
}

KernelInterface::~KernelInterface() {
  close(socket_);
  if (groups_socket_ >= 0) close(groups_socket_);
}

bool KernelInterface::receive_all_groups() {
  // Of no protocol, so that it receives nothing itself.
  if (groups_socket_ < 0) groups_socket_ = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  packet_mreq request{};
  request.mr_ifindex = static_cast<int>(index_);
  request.mr_type = PACKET_MR_ALLMULTI;
  return groups_socket_ >= 0 &&
         setsockopt(groups_socket_, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &request, sizeof request) == 0;
}

bool KernelInterface::exists() const {
  ifreq request{};
  request.ifr_ifindex = static_cast<int>(index_);
  return ioctl(socket_, SIOCGIFNAME, &request) == 0;
}

bool KernelInterface::running() const {
  ifreq request{};
  request.ifr_ifindex = static_cast<int>(index_);
  if (ioctl(socket_, SIOCGIFNAME, &request) != 0 || ioctl(socket_, SIOCGIFFLAGS, &request) != 0) return false;
  if ((request.ifr_flags & IFF_UP) == 0) return false;
  // IFF_RUNNING may come a second late; the driver itself knows at once, where it tells.
  const bool running = (request.ifr_flags & IFF_RUNNING) != 0;
  ethtool_value link{.cmd = ETHTOOL_GLINK, .data = 0};
  request.ifr_data = reinterpret_cast<char*>(&link);
  return ioctl(socket_, SIOCETHTOOL, &request) == 0 ? link.data != 0 : running;
}

uint32_t KernelInterface::mbps() const {
  ifreq request{};
  request.ifr_ifindex = static_cast<int>(index_);
  if (ioctl(socket_, SIOCGIFNAME, &request) != 0) return 0;
  ethtool_cmd settings{};
  settings.cmd = ETHTOOL_GSET;
  request.ifr_data = reinterpret_cast<char*>(&settings);
  if (ioctl(socket_, SIOCETHTOOL, &request) != 0) return 0;
  const uint32_t mbps = ethtool_cmd_speed(&settings);
  return mbps == static_cast<uint32_t>(SPEED_UNKNOWN) ? 0 : mbps;
}

}  // namespace uroce::drivers
