#pragma once

#include "base/values/result.h"

namespace uroce::serve {

/// A program that `uroce run` started has our libibverbs.so.1 before the system's, and the service that it
/// starts would hand it to DPDK's drivers, some of which (mlx5, mlx4) need rdma-core's. Where LD_LIBRARY_PATH
/// or LD_PRELOAD leads to the stack's libraries, this program executes itself again without them; it then
/// returns only with an error. To be called before anything is opened.
Status leave_our_libraries(char** arguments);

}  // namespace uroce::serve
