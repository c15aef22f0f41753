#pragma once

#include <atomic>
#include <cstdint>

namespace uroce::verbs {

/// Counts the forks since the first device was opened. A context remembers the count of its birth: in a child
/// process there are no pollers behind it, so its calls fail (EIO) instead of waiting for ever.
extern std::atomic<uint32_t> fork_count;

/// To be called before a device is opened: from then on a child process is told. False in a child whose
/// parent had opened a device: the stack that it inherited is dead, and devices cannot be opened.
bool watch_forks();

}  // namespace uroce::verbs
