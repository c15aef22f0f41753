#pragma once

#include "base/values/time.h"

// A turn that its thread has left in the middle. Nothing tells of a longjmp, but a thread that comes to make
// a turn while it is in one has either been interrupted by a signal whose handler calls the verbs, or left
// that turn. The handler must return for the turn to end; when it has not after kPatience, the turn was left.
namespace uroce::engine {

/// Calls of a thread within one and the same turn, and the time since the first, before the turn counts as
/// left.
inline constexpr uint32_t kReentriesMin = 64;
inline constexpr Duration kReentryPatience = seconds(1);

/// The calling thread, which holds a turn lock, wants to make a turn. Tells the lock's owner when the turn
/// was left; then the thread holds it no more.
void note_reentry(Instant now);

/// From now on the owner is told when the calling thread ends within a turn. Once per thread.
void watch_thread_end();

}  // namespace uroce::engine
