#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace uroce::drivers {

/// MTU of a network interface of the kernel; ENODEV when there is none of that name. `port` begins the
/// error's message.
Result<uint32_t> interface_mtu_of(const std::string& port, const std::string& interface);

/// EPERM when this process may not open packet sockets.
Status may_open_packet_socket(const std::string& port);

}  // namespace uroce::drivers
