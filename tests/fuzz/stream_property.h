#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/counters/counters.h"

namespace uroce::fuzz {

/// How deep a stream came.
struct Depth {
  uint64_t sends = 0;  // that were successful
  uint64_t receives = 0;
  std::array<uint64_t, kCounterCount> counters{};
};

/// Takes the input for what a queue pair and its peer do, step by step, on any service. Throws
/// std::logic_error when something comes of it that must not (see StreamTarget).
Depth check_stream(std::span<const std::byte> input);

}  // namespace uroce::fuzz
