#pragma once

#include "rdmacm/id.h"

namespace uroce::rdmacm {

/// Tells the peer that its answer is welcome. 0 or errno.
int establish(Id& id);
/// Tells it that it is not, after all, and ends the queue pair's part.
void abandon(Id& id);

}  // namespace uroce::rdmacm
