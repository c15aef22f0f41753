#pragma once

#include <functional>

namespace uroce::drivers {

/// Calls `make`, which makes a socket that listens and registers it with EAL's interrupt thread, and returns
/// what it returns; everything on that thread. EAL keeps a source of interrupts per descriptor, in the memory
/// of the code that registers it first. net_memif's is of DPDK's heap and stays when the device is gone, so
/// EAL's thread would read memory that the program's rte_eal_cleanup() has unmapped. Here the number that the
/// socket gets is registered before, with memory of the C library.
///
/// `is_made(number)`: the descriptor is that socket. Another thread may take the number first; then the
/// source is as the driver makes it.
int make_with_lasting_source(const std::function<int()>& make, const std::function<bool(int)>& is_made);

}  // namespace uroce::drivers
