#pragma once

#include <cstdint>

#include "port/port.h"

namespace uroce::testing {

/// One turn of a poller that takes all it gets and sends as much as fits. Its frames have 8000 bytes, so
/// that it is inside the driver most of the time. Returns the frames received.
uint64_t flood_once(port::PortQueue& queue);

}  // namespace uroce::testing
