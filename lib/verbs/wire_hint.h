#pragma once

#include <infiniband/verbs.h>

#include <string>

namespace uroce::verbs {

/// Somebody was not found, of whom `missing` says who. Where the device's wire does not leave the process
/// (without any configuration none does), that is said in one line, once: the peer is most likely in another
/// process.
void hint_at_wire(ibv_device& device, const std::string& missing);

}  // namespace uroce::verbs
