#include "apps/perf/ends/arrivals.h"

#include <algorithm>

namespace uroce::perf {

void Arrivals::begin(uint64_t first) {
  first_ = first;
  count_ = 0;
  std::ranges::fill(landed_, std::nullopt);
}

uint64_t Arrivals::note(uint32_t low_bits) {
  const uint64_t number = full_number(next_, low_bits);
  landed_[(by_number_ ? number : received_) % slots_] = number;
  ++received_;
  next_ = std::max(next_, number + 1);
  if (number >= first_) ++count_;
  return number;
}

}  // namespace uroce::perf
