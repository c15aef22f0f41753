#include "engine/poller/quiescence.h"

#include "base/threads/spin_wait.h"
#include "base/values/contract.h"

namespace uroce::engine {

constinit thread_local const TurnLock* turning_on_this_thread __attribute__((tls_model("initial-exec"))) =
    nullptr;

void Quiescence::wait() {
  // Observed one after the other: what is unpublished stays so, so a turn that begins meanwhile cannot see
  // it.
  for (size_t i = 0; i < locks_.size(); ++i) {
    TurnLock* const lock = locks_[i];
    if (lock == turning_on_this_thread) continue;
    const uint64_t observed = lock->observe();
    SpinWait wait;
    while (!lock->ended(observed)) {
      // The turn that this waits for may be one that only the caller would make.
      if (lock->paused() && turns_[i] && turning_on_this_thread == nullptr) turns_[i]();
      wait.once();
    }
  }
}

void Quiescence::begin(mem::GraceTicket& ticket) {
  UROCE_ASSERT(ticket.observed().size() >= locks_.size());
  for (size_t i = 0; i < locks_.size(); ++i) {
    // 0 is between two turns: nothing to wait for.
    ticket.observed()[i] = locks_[i] == turning_on_this_thread ? 0 : locks_[i]->observe();
  }
}

bool Quiescence::over(mem::GraceTicket& ticket) {
  for (size_t i = 0; i < locks_.size(); ++i) {
    if (!locks_[i]->ended(ticket.observed()[i])) return false;
    ticket.observed()[i] = 0;
  }
  return true;
}

}  // namespace uroce::engine
