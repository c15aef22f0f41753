#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "nvmf/rdma/events.h"

namespace uroce::fuzz {

/// What hosts did, and what the target made of it, since the process began.
struct RdmaDepth {
  uint64_t requests = 0;
  uint64_t capsules = 0;
  nvmf::RdmaEventTotals events{};
};

/// Takes the input for what hosts do to a target over RDMA: requests that they complete, reject or forget,
/// valid private data and others, receives that they do not post, capsules of any bytes, disconnects, in any
/// order, and a clock that jumps. Throws std::logic_error when something comes of it that must not: a queue
/// that does not end, or a target that does not serve a well-behaved host any more. Memory errors are the
/// sanitizers' business.
///
/// What is real: all of the target and of its transport with their threads, and the stack below them, over
/// the two devices of the embedded wire. What is not: the clock of the target runs ahead when the input says
/// so. Threads make a run of the same input differ from another in time.
RdmaDepth check_rdma_hosts(std::span<const std::byte> input);

}  // namespace uroce::fuzz
