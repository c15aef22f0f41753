#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/values/result.h"
#include "drivers/process/open_descriptors.h"

namespace uroce::drivers {

/// The packet sockets on that interface that were opened since `before`: those of a device of net_af_packet,
/// which does not say what it opens.
std::vector<int> packet_sockets(const OpenDescriptors& before, unsigned interface_index);

/// Lets nothing but RoCEv2 into those sockets: what is the kernel's costs us nothing then. ENOTSUP: there are
/// none. `port` begins the error's message.
Status only_roce(std::span<const int> sockets, const std::string& port);

/// Drops what a port that has just started received unfiltered: the sockets were open before they were
/// filtered, and what they took until then is the kernel's.
void discard_unfiltered(uint16_t port_id, uint16_t queues);

}  // namespace uroce::drivers
