#include "client/patience.h"

#include <fmt/format.h>

#include "client/failure.h"

namespace uroce::client {

void Patience::look() {
  constexpr std::chrono::seconds kLimit{60};
  throw_if_interrupted();
  const auto now = std::chrono::steady_clock::now();
  if (idle_since_ == std::chrono::steady_clock::time_point{}) idle_since_ = now;
  if (now - idle_since_ > kLimit) {
    throw Failure(fmt::format("nothing came from {} for {} s", waiting_for_, kLimit.count()));
  }
}

bool Silence::lasts() {
  constexpr uint64_t kLooksBetweenClocks = 64;
  constexpr uint64_t kLooks = 1024;
  if (++looks_ % kLooksBetweenClocks != 1) return false;
  const auto now = std::chrono::steady_clock::now();
  if (looks_ == 1) since_ = now;
  if (looks_ < kLooks || now - since_ < limit_) return false;
  looks_ = 0;
  return true;
}

}  // namespace uroce::client
