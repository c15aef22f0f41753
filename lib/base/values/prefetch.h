#pragma once

#include <cstddef>

namespace uroce {

/// Has the lines of `bytes` bytes at `begin` come into the cache, all at the same time. It does not matter
/// whether there is memory.
[[gnu::always_inline]] inline void prefetch_lines(const void* begin, size_t bytes) {
  constexpr size_t kLine = 64;
  const auto* const from = static_cast<const char*>(begin);
#pragma GCC unroll 32
  for (size_t i = 0; i < bytes; i += kLine) __builtin_prefetch(from + i);
}

}  // namespace uroce
