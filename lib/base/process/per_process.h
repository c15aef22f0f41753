#pragma once

#include <atomic>
#include <cstdint>

#include "base/process/forks.h"

namespace uroce {

/// An object that each process has of its own: made when it is first asked for, and once more in a forked
/// child, since the one that was inherited may be locked by a thread that does not exist there. Never
/// destroyed, nor is the inherited one, which the program may have pointers into. For objects of static
/// storage, without a constructor at run time. Control path, any thread.
template <typename T>
class PerProcess {
 public:
  constexpr PerProcess() = default;
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;

  T& get() {
    Made* made = made_.load(std::memory_order_acquire);  // partner: the exchange below
    if (made != nullptr && made->forks == fork_count()) return made->object;
    watch_forks();
    auto* const mine = new Made{.forks = fork_count(), .parents = made};
    // Another thread of this process may be the first; then `made` is what it has made.
    if (made_.compare_exchange_strong(made, mine, std::memory_order_acq_rel)) return mine->object;
    delete mine;
    return made->object;
  }

 private:
  struct Made {
    uint32_t forks;
    Made* parents;  // still reachable, for leak checkers
    T object{};
  };
  std::atomic<Made*> made_{nullptr};
};

}  // namespace uroce
