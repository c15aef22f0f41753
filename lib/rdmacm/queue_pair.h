#pragma once

#include "rdmacm/id.h"

namespace uroce::rdmacm {

/// What ibv_modify_qp is to be given for `attributes.qp_state`, INIT, RTR or RTS, as the connection wants it.
/// 0, or EINVAL: nothing is known of it yet.
int describe_transition(const Id& id, ibv_qp_attr& attributes, int& mask);

/// From INIT to RTS, ready for the peer. 0 or errno.
int make_ready(Id& id);
/// The queue pair, if there is one, to the error state.
void break_off(Id& id);

}  // namespace uroce::rdmacm
