#pragma once

#include "rdmacm/id.h"

namespace uroce::rdmacm {

// Completion queues and their channels, which ids make for those that the program does not bring
// (rdma_create_qp(3)): then calls of rdma_verbs.h wait for completions at id.send_cq_channel and
// id.recv_cq_channel.

/// Fills in `send_cq` and `recv_cq` where they are missing and the type has them. 0 or errno.
int make_completion_queues(Id& id, ibv_qp_init_attr_ex& wanted);
/// The one for a shared receive queue of XRC. 0 or errno.
int make_receive_completions(Id& id, uint32_t entries);
/// Destroys the completion queues that the id made.
void end_completion_queues(Id& id);

}  // namespace uroce::rdmacm
