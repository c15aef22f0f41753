#pragma once

#include <cstddef>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "port_pair.h"

namespace uroce::testing {

/// One way of joining two ports inside this process.
struct JoinedPorts {
  std::string name;
  std::function<PortPair()> open;  // null pointers when it failed; the failure has been reported
  uint32_t path_mtu = 4096;        // the largest of RDMA that fits
  bool by_kernel = false;          // which stands between: it takes frames that it then may lose
  size_t buffers_kept = 0;         // that the driver may hold back after sending
};

inline void PrintTo(const JoinedPorts& ports, std::ostream* stream) { *stream << ports.name; }

/// Every way there is.
std::vector<JoinedPorts> joined_ports();

}  // namespace uroce::testing
