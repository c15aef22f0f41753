#pragma once

#include <cstdint>

namespace uroce::host {

/// Names the network namespace of this process among those of the machine: indexes of interfaces count in one
/// namespace. 0: it cannot be known, without /proc.
uint64_t own_network_namespace();

}  // namespace uroce::host
