#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "host/tool_memory.h"

namespace uroce::serve {

/// CLOCK_MONOTONIC, by which processes tell when they answered.
int64_t now_ns();

/// Until `word` has another value than this and its process wakes the waiters, or 2 ms.
void pause_while(std::atomic<uint32_t>& word, uint32_t value);

/// Asks for what the caller has written under the lock, and wakes the process. The number that it answers by.
uint32_t post(host::Question& question);

/// Takes the lock of the memory by `try_lock`, which another tool may hold until its answer is there. False:
/// not within `patience_ns`.
bool lock_to_ask(host::Question& question, int64_t patience_ns, const std::function<bool()>& try_lock);

enum class Outcome {
  kAnswered,
  kClosed,  // the process answers no more
  kEnded,   // the process exists no more
  kLate,    // no answer within that time
};
/// Asks process `pid`, for what the caller has written under the lock, and waits for the answer.
Outcome ask(host::Question& question, int pid, int64_t patience_ns);

}  // namespace uroce::serve
