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
  size_t buffers_kept = 0;         // that the driver may hold back after sending
};

inline void PrintTo(const JoinedPorts& ports, std::ostream* stream) { *stream << ports.name; }

/// Every way there is.
std::vector<JoinedPorts> joined_ports();

}  // namespace uroce::testing
