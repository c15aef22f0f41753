#pragma once

#include <cstdint>

#include "base/values/time.h"
#include "tests/sim/faults.h"

namespace uroce::sim {

/// How bad the network is, per direction.
struct NetworkConditions {
  uint64_t loss = 0;  // like the others: per kPer frames
  uint64_t duplication = 0;
  uint64_t reordering = 0;
  uint64_t corruption = 0;
  uint64_t truncation = 0;
  Duration latency = microseconds(2);
  Duration jitter = microseconds(5);  // of duplicates and of what is overtaken
  Instant cut = kNever;               // from here on nothing arrives
};

/// The nodes that make it.
Path path_of(const NetworkConditions& conditions);

}  // namespace uroce::sim
