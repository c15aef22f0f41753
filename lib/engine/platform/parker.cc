// Decision: other processes wake a thread by a futex in memory that only its own process writes, at their
// read-only mappings. Cost: a wake-up that crosses falling asleep is missed, and so is one that another
// user's program moves away (FUTEX_REQUEUE). No sleep is longer than 4 ms (IdleLimits::kSleepMax).
#include "engine/platform/parker.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace uroce::engine {

namespace {

timespec to_timespec(int64_t ns) { return {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000}; }

uint32_t* word(std::atomic<uint32_t>* atomic) {
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
  return reinterpret_cast<uint32_t*>(atomic);
}

}  // namespace

bool Parker::sleep(uint32_t how, int64_t ns) {
  asleep_->store(how, std::memory_order_seq_cst);
  return wait(how, ns);
}

bool Parker::wait(uint32_t how, int64_t ns) {
  const timespec timeout = to_timespec(ns);
  syscall(SYS_futex, word(asleep_), shared_ ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, how, &timeout, nullptr, 0);
  // Partner: nudge(), to which only the hint matters.
  return asleep_->exchange(kAwake, std::memory_order_relaxed) == kAwake;
}

void Parker::nap(int64_t ns) {
  const timespec duration = to_timespec(ns);
  nanosleep(&duration, nullptr);
}

void Parker::wake() {
  if (asleep_->exchange(kAwake, std::memory_order_seq_cst) == kAwake) return;
  // Another process may wait at it as well.
  syscall(SYS_futex, word(asleep_), shared_ ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, shared_ ? INT_MAX : 1, nullptr,
          nullptr, 0);
}

}  // namespace uroce::engine
