#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "drivers/process/open_descriptors.h"

namespace uroce::drivers {

/// Lets nothing but RoCEv2 into the packet sockets on that interface that were opened since `before`: what is
/// the kernel's costs us nothing then. ENOTSUP: there are no such sockets. `port` begins the error's message.
Status only_roce(const OpenDescriptors& before, unsigned interface_index, const std::string& port);

/// Drops what a port that has just started received unfiltered: the sockets were open before they were
/// filtered, and what they took until then is the kernel's.
void discard_unfiltered(uint16_t port_id, uint16_t queues);

}  // namespace uroce::drivers
