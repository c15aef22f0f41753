#pragma once

#include <infiniband/verbs.h>

#include <string>

namespace uroce::verbs {

/// A peer was not found; `missing` says how that showed. Where the device's wire does not leave the process
/// (without any configuration none does), one line on standard error says so, once: the peer is most likely
/// in another process.
void hint_at_wire(ibv_device& device, const std::string& missing);

}  // namespace uroce::verbs
