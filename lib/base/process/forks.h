#pragma once

#include <atomic>
#include <cstdint>

namespace uroce {

namespace detail {
inline constinit std::atomic<uint32_t> forks{0};
}  // namespace detail

/// How many forks lie between this process and the one that called watch_forks() first. What was made at
/// another count is the parent's: its threads do not exist here, and its locks may stay taken for ever. One
/// load.
inline uint32_t fork_count() {
  // Relaxed: written in the child before fork() returns there, when it has one thread.
  return detail::forks.load(std::memory_order_relaxed);
}

/// From now on forks are counted. Control path, any thread.
void watch_forks();

}  // namespace uroce
