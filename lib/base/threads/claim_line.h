#pragma once

#include <cstddef>

namespace uroce {

inline constexpr size_t kCacheLine = 64;

/// Asks for the cache line at `at`, which another CPU may hold, to write it soon. CPUs that do not know the
/// instruction take it for none.
inline void claim_line(const void* at) {
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(at)));
}

}  // namespace uroce
