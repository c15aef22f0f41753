#pragma once

namespace uroce::drivers {

/// Whether libibverbs.so.1 of this process is the stack's, so that DPDK's drivers that need rdma-core's do
/// not find it. Control path.
bool has_our_verbs();

}  // namespace uroce::drivers
