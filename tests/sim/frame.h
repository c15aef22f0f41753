#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/time.h"

namespace uroce::sim {

/// A frame on its way through the simulated network.
struct Frame {
  std::vector<std::byte> bytes;
  Instant arrival{};
  /// Bytes that the ICRC covers, or the length, are not what was sent: nothing of it may have any effect.
  bool damaged = false;
};

using FramePtr = std::unique_ptr<Frame>;

}  // namespace uroce::sim
