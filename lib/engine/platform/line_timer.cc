#include "engine/platform/line_timer.h"

#include <immintrin.h>

#include "engine/platform/clock.h"

namespace uroce::engine {

Duration time_line_claim(std::byte* line) {
  if (!detail::counts_cycles.load(std::memory_order_relaxed)) return {};
  _mm_mfence();  // stores before this would be waited for
  _mm_lfence();
  const Instant before = clock_now();
  _mm_lfence();
  asm volatile("lock orb $0, %0" : "+m"(*line));
  _mm_lfence();
  return clock_now() - before;
}

}  // namespace uroce::engine
