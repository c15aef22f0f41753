#pragma once

#include <nlohmann/json.hpp>

#include "apps/perf/plan/plan.h"
#include "client/channel.h"
#include "client/verbs_device.h"

namespace uroce::perf {

/// The server's part of a load that a client has named ("load"): queue pairs are exchanged, and runs are
/// answered, until the client says that it is over. Throws Failure. Returns the bytes compared.
uint64_t serve_load(client::Channel& channel, const client::DeviceChoice& choice, const Plan& plan,
                    const nlohmann::json& load);

}  // namespace uroce::perf
