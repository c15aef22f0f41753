#include "engine/quiescence.h"

#include <sched.h>

namespace uroce::engine {

void Quiescence::wait() {
  // Observed one after the other: what is unpublished stays so, so a turn that begins meanwhile cannot see
  // it.
  for (TurnLock* lock : locks_) {
    if (lock == turning_on_this_thread) continue;
    const uint64_t observed = lock->observe();
    while (!lock->ended(observed)) sched_yield();
  }
}

}  // namespace uroce::engine
