#pragma once

#include <cstdint>

#include "base/values/identifiers.h"

namespace uroce::engine {

/// Index of the interface that programs are told for a GID of a device that goes through none of the
/// kernel's: the one that has the address, else the one by which the kernel routes to it, else the loopback
/// interface. Programs look for routes of that interface before they use the GID (UCX), so each GID has one.
/// Asks the kernel; any thread.
uint32_t interface_for(const Gid& gid);

}  // namespace uroce::engine
