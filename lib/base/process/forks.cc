#include "base/process/forks.h"

#include <pthread.h>

namespace uroce {

void watch_forks() {
  static const int registered = pthread_atfork(
      nullptr, nullptr, [] { detail::forks.fetch_add(1, std::memory_order_relaxed); });  // see fork_count()
  (void)registered;
}

namespace {
// From the load on: a child's own handlers, which run in the order of registration, find it counted, and no
// thread registers while another forks.
[[maybe_unused]] const bool watched = (watch_forks(), true);
}  // namespace

}  // namespace uroce
