// A turn that its thread has left in the middle costs the device: IBV_EVENT_DEVICE_FATAL, no further turn,
// and what the poller has is never touched again. Nothing tells of a longjmp out of a signal handler, and the
// state of such a turn cannot be trusted. Cost: one load per turn. Not covered: a thread that jumps and never
// calls the verbs again while it lives, which looks like one that a page fault holds up. Nor is one that
// jumps out of a call that holds a lock of a queue.
#include "engine/poller/left_turn.h"

#include <limits.h>
#include <pthread.h>

#include <cstdint>
#include <utility>

#include "engine/poller/turn_lock.h"

namespace uroce::engine {
namespace {

constexpr pthread_key_t kNoKey = PTHREAD_KEYS_MAX;

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

/// A key, and no object with a destructor: the list of those is memory that a forked child would leak.
pthread_key_t make_thread_end_key() {
  pthread_key_t key{};
  const int error = pthread_key_create(&key, [](void*) { leave_turn(); });
  return error == 0 ? key : kNoKey;
}

}  // namespace

void note_reentry(Instant now) {
  const TurnLock* const lock = turning_on_this_thread;
  if (reentry.lock != lock || reentry.turn_number != lock->turn_number())
    reentry = {.lock = lock, .turn_number = lock->turn_number(), .since = now};
  if (++reentry.calls < kReentriesMin || now - reentry.since < kReentryPatience) return;
  reentry = {};
  leave_turn();
}

void watch_thread_end() {
  static const pthread_key_t key = make_thread_end_key();
  // Any value but null: only then the destructor runs.
  if (key != kNoKey) pthread_setspecific(key, &reentry);
}

}  // namespace uroce::engine
