#pragma once

#include <sched.h>

#include <cstddef>

namespace uroce::perf {

/// Keeps the calling thread, and threads that it makes, on one of the CPUs that it may use: the one at
/// `index` of them. Nothing happens when there are fewer.
inline void pin_to(size_t index) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || index-- > 0) continue;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(cpu, &only);
    sched_setaffinity(0, sizeof only, &only);
    return;
  }
}

}  // namespace uroce::perf
