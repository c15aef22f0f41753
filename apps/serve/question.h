#pragma once

#include <cstdint>
#include <functional>

#include "host/tool_memory.h"

namespace uroce::serve {

/// CLOCK_MONOTONIC, by which processes tell when they answered.
int64_t now_ns();

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
