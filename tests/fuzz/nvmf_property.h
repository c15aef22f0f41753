#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "nvmf/format/status.h"

namespace uroce::fuzz {

/// How commands were answered.
struct CapsuleDepth {
  std::map<nvmf::StatusCode, uint64_t> answers;
  uint64_t fused_pairs = 0;    // of which both halves succeeded
  uint64_t deallocations = 0;  // that came to a device
  uint64_t resets = 0;         // of controllers that were enabled
  uint64_t silences = 0;       // that a keep-alive timer ended
};

/// Takes the input for what hosts send to a target on several queues, how its devices behave, and what is
/// configured meanwhile. Throws std::logic_error when something comes of it that must not: a block request
/// that does not fit the device, a command that is answered twice or never, a queue that does not end, or a
/// target that does not serve a well-behaved host any more.
CapsuleDepth check_capsules(std::span<const std::byte> input);

}  // namespace uroce::fuzz
