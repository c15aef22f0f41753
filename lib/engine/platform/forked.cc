#include "engine/platform/forked.h"

#include <pthread.h>

#include <atomic>

namespace uroce::engine {

namespace {
// Written in the child before fork() returns there, when it has one thread: relaxed is enough.
std::atomic<bool> forked{false};
}  // namespace

bool forked_since_start() { return forked.load(std::memory_order_relaxed); }

void watch_forks() {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });
  (void)registered;
}

}  // namespace uroce::engine
