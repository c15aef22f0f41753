#pragma once

#include <span>

#include "block/block.h"
#include "tests/block/memory.h"

namespace uroce::testing {

/// From beginning to end; nothing else is under way in the queue.
inline block::Outcome run_request(block::Queue& queue, block::Request request) {
  request.user = &request;
  if (!queue.submit(request)) return block::Outcome::kGone;
  block::Ended ended;
  while (queue.poll({&ended, 1}) == 0) {
  }
  return ended.user == &request ? ended.outcome : block::Outcome::kGone;
}

/// All of `memory`, from `block` on.
inline block::Outcome transfer(block::Queue& queue, block::Operation operation, uint64_t block,
                               uint32_t block_bytes, const AlignedMemory& memory) {
  const iovec piece = memory.piece();
  return run_request(queue, {.operation = operation,
                             .block = block,
                             .blocks = static_cast<uint32_t>(piece.iov_len / block_bytes),
                             .memory = {&piece, 1}});
}

}  // namespace uroce::testing
