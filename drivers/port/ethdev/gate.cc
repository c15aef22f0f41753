#include "drivers/port/ethdev/gate.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <vector>

#include "base/threads/spin_wait.h"

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

void Gate::wait_until_empty(Duration patience) const {
  // The first time may be that of a look that began before.
  constexpr uint32_t kLooks = 2;
  constexpr timespec kNap{.tv_sec = 0, .tv_nsec = 50'000};
  std::vector<uint32_t> before;
  for (uint16_t queue = 0; queue < queues_; ++queue)
    before.push_back(inside_[queue].empty.load(std::memory_order_acquire));
  const auto is_empty = [&] {
    for (uint16_t queue = 0; queue < queues_; ++queue) {
      // Acquire: pairs with found_nothing(), in front of which what was received has been taken.
      if (inside_[queue].empty.load(std::memory_order_acquire) - before[queue] < kLooks) return false;
    }
    return true;
  };
  // By a clock: a nap takes longer than it says, on a busy machine many times as long.
  const auto last = std::chrono::steady_clock::now() + std::chrono::nanoseconds(patience.ns);
  while (!is_empty() && std::chrono::steady_clock::now() < last) {
    if (!open_.load(std::memory_order_relaxed) || ended_.load(std::memory_order_relaxed)) return;
    nanosleep(&kNap, nullptr);
  }
}

void Gate::close() {
  open_.store(false, std::memory_order_relaxed);  // the barrier orders it
  barrier_in_all_threads();
  for (uint16_t queue = 0; queue < queues_; ++queue) {
    SpinWait wait;
    while (inside_[queue].inside.load(std::memory_order_acquire)) wait.once();  // pairs with leave()
  }
}

void Gate::open() {
  open_.store(true, std::memory_order_release);  // pairs with the acquire in enter()
}

}  // namespace uroce::drivers
