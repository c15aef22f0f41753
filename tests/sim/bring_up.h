#pragma once

#include "engine/device/device.h"
#include "tests/sim/host.h"

namespace uroce::sim {

/// Takes a queue pair of RC, UC or UD from RESET to RTS; throws when the device refuses.
void bring_up(Host& host, engine::QpSlot& queue_pair, qp::Type type, const qp::Attributes& attributes);

}  // namespace uroce::sim
