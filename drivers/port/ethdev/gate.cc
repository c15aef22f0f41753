#include "drivers/port/ethdev/gate.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace uroce::drivers {
namespace {

bool membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }

/// Afterwards every running thread of the process has passed a full barrier.
void barrier_in_all_threads() {
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return;
  membarrier(MEMBARRIER_CMD_GLOBAL);  // slower, and needs no registration
}

}  // namespace

Gate::Gate(uint16_t queues) : queues_(queues), inside_(std::make_unique<Place[]>(queues)) {
  membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

void Gate::close() {
  open_.store(false, std::memory_order_relaxed);  // the barrier orders it
  barrier_in_all_threads();
  for (uint16_t queue = 0; queue < queues_; ++queue) {
    while (inside_[queue].inside.load(std::memory_order_acquire))
      sched_yield();  // pairs with the release in leave()
  }
}

void Gate::open() {
  open_.store(true, std::memory_order_release);  // pairs with the acquire in enter()
}

}  // namespace uroce::drivers
