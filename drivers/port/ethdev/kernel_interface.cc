#include "drivers/port/ethdev/kernel_interface.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace uroce::drivers {

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

Status may_open_packet_socket(const std::string& port) {
  const int socket_fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (socket_fd < 0) {
    return Error{errno, port + ": no permission to open packet sockets (CAP_NET_RAW is needed)"};
  }
  close(socket_fd);
  return {};
}

}  // namespace uroce::drivers
