#pragma once

namespace uroce::engine {

/// True in a process that was forked after the first call: the threads that turned our pollers do not exist
/// there, and locks may stay taken for ever. One load.
bool forked_since_start();

/// Remembers that this process has a stack. Control path.
void watch_forks();

}  // namespace uroce::engine
