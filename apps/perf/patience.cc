#include "apps/perf/patience.h"

#include <fmt/format.h>

#include "apps/perf/failure.h"

namespace uroce::perf {

void Patience::look() {
  constexpr std::chrono::seconds kLimit{60};
  throw_if_interrupted();
  const auto now = std::chrono::steady_clock::now();
  if (idle_since_ == std::chrono::steady_clock::time_point{}) idle_since_ = now;
  if (now - idle_since_ > kLimit) {
    throw Failure(fmt::format("nothing came from {} for {} s", waiting_for_, kLimit.count()));
  }
}

}  // namespace uroce::perf
