#pragma once

#include "rdmacm/id.h"

namespace uroce::rdmacm {

/// Null and errno. No channel: a synchronous id with one of its own.
Id* make_id(rdma_event_channel* channel, void* context, rdma_port_space space, ibv_qp_type type);
/// Everything that it has of the stack's is given back, and its events are gone when it returns: waits until
/// the program has acknowledged them.
void destroy_id(Id& id);

/// Requests that wait are refused.
void end_listening(Id& id);

/// What the path looks like to programs.
void show_path(Id& id);

}  // namespace uroce::rdmacm
