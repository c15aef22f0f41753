#pragma once

#include "rdmacm/id.h"

namespace uroce::rdmacm {

/// The queue pair, if there is one, gets the group's messages from here on. Always true: the program sees it.
bool carry_out_join(Event& event);

/// The queue pair goes; the id stays in its groups.
void leave_groups_of_queue_pair(Id& id);
/// The id goes.
void leave_groups(Id& id);

}  // namespace uroce::rdmacm
