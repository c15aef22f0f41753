#include "verbs/process.h"

#include <pthread.h>

#include <mutex>

namespace uroce::verbs {

std::atomic<uint32_t> fork_count{0};

bool watch_forks() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Relaxed: the child has one thread when the handler runs.
    pthread_atfork(nullptr, nullptr, [] { fork_count.fetch_add(1, std::memory_order_relaxed); });
  });
  return fork_count.load(std::memory_order_relaxed) == 0;
}

}  // namespace uroce::verbs
