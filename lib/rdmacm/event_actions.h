#pragma once

#include "rdmacm/event.h"

namespace uroce::rdmacm {

/// What rdma_get_cm_event does before the program sees an event: makes the id of a request, and takes an
/// id's queue pair where the event means it to be. False: the program does not see it.
bool carry_out(Event& event);

}  // namespace uroce::rdmacm
