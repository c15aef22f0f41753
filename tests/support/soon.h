#pragma once

#include <chrono>
#include <thread>

namespace uroce {

/// Whether `condition()` holds now or within ten seconds: for what becomes true a moment later than a call
/// returns. So the kernel lists a thread in /proc for a moment after it was joined.
template <typename Condition>
bool soon(Condition condition) {
  for (int tries = 0; tries < 1000; ++tries) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return condition();
}

}  // namespace uroce
