#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/values/time.h"

namespace uroce::sim {

/// A frame on its way through the simulated network.
struct Frame {
  Frame() { ++alive; }
  Frame(const Frame& other) : bytes(other.bytes), arrival(other.arrival), damaged(other.damaged) { ++alive; }
  Frame& operator=(const Frame&) = delete;
  ~Frame() { --alive; }

  /// How many there are in the process.
  static inline std::atomic<int64_t> alive{0};

  std::vector<std::byte> bytes;
  Instant arrival{};
  /// Bytes that the ICRC covers, or the length, are not what was sent: nothing of it may have any effect.
  bool damaged = false;
};

using FramePtr = std::unique_ptr<Frame>;

}  // namespace uroce::sim
