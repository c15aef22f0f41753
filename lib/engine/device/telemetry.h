#pragma once

#include "host/own_statistics.h"

namespace uroce::engine {

/// DPDK's telemetry socket, where a configuration asks for it (eal.arguments = ["--telemetry"]), answers
/// "/uroce/devices" and "/uroce/counters,DEVICE" from now on, until forget_in_telemetry(). EAL runs.
void show_in_telemetry(host::OwnStatistics& statistics);
void forget_in_telemetry(host::OwnStatistics& statistics);

}  // namespace uroce::engine
