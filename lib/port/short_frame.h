#pragma once

#include <cstddef>

#include "base/threads/claim_line.h"

// A short frame, all of it, is asked for before it is touched: it may be in the cache of the CPU at the other
// end of a wire.
namespace uroce::port {

inline constexpr size_t kShortFrameBytes = 3 * kCacheLine;  // a WRITE of 64 bytes has 138

/// Prefetches a short frame that is to be read.
inline void prefetch_frame(const std::byte* frame) {
  for (size_t at = 0; at < kShortFrameBytes; at += kCacheLine) __builtin_prefetch(frame + at);
}

/// Claims the cache lines of a short frame that is to be written: a store that misses holds up those behind
/// it.
inline void claim_frame(const std::byte* frame) {
  for (size_t at = 0; at < kShortFrameBytes; at += kCacheLine) claim_line(frame + at);
}

}  // namespace uroce::port
