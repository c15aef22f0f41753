#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/values/result.h"
#include "drivers/port/ethdev/memif/socket.h"
#include "drivers/port/kernel/claims.h"
#include "drivers/port/kernel/devargs.h"
#include "drivers/port/kernel/pmd_traits.h"

namespace uroce::drivers {

/// The port of the device that the devargs name, if DPDK knows it already; else RTE_MAX_ETHPORTS.
uint16_t find_port(const std::string& devargs);

/// Has DPDK make the device; `memif`: its socket, if it has one. Returns what no other port may have while it
/// exists. The error's message is the reason alone: what DPDK has complained of, where it did, since its
/// return value says little.
Result<Claims> probe_device(const Devargs& devargs, const PmdTraits& traits,
                            const std::function<std::string()>& dpdk_complaint, MemifSocket* memif);

}  // namespace uroce::drivers
