#include "engine/poller/left_turn.h"

#include <cstdint>
#include <utility>

#include "engine/poller/turn_lock.h"

namespace uroce::engine {
namespace {

/// The turn that the calling thread was in when it came for another one.
struct Reentry {
  const TurnLock* lock = nullptr;
  uint64_t turn_number = 0;
  uint32_t calls = 0;
  Instant since{};
};
thread_local Reentry reentry;

void leave_turn() {
  const TurnLock* const lock = std::exchange(turning_on_this_thread, nullptr);
  if (lock != nullptr && lock->owner() != nullptr) lock->owner()->turn_left();
}

struct ThreadEnd {
  ~ThreadEnd() { leave_turn(); }
  bool watched = false;
};
thread_local ThreadEnd thread_end;

}  // namespace

void note_reentry(Instant now) {
  const TurnLock* const lock = turning_on_this_thread;
  if (reentry.lock != lock || reentry.turn_number != lock->turn_number())
    reentry = {.lock = lock, .turn_number = lock->turn_number(), .since = now};
  if (++reentry.calls < kReentriesMin || now - reentry.since < kReentryPatience) return;
  reentry = {};
  leave_turn();
}

void watch_thread_end() { thread_end.watched = true; }

}  // namespace uroce::engine
