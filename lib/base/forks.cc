#include "base/forks.h"

#include <pthread.h>

namespace uroce {

void watch_forks() {
  static const int registered = pthread_atfork(
      nullptr, nullptr, [] { detail::forks.fetch_add(1, std::memory_order_relaxed); });  // see fork_count()
  (void)registered;
}

}  // namespace uroce
