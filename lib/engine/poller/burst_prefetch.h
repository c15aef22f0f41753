#pragma once

#include <span>

#include "engine/poller/queue_pair_table.h"
#include "port/port.h"

namespace uroce::engine {

/// Has the queue pairs that the frames of a burst are for come into the cache, all at the same time: first
/// what the table has of them, then themselves, then their transports. A hint: a frame is looked at, not
/// parsed, and whatever its bytes say does no harm. One poller, in a turn.
void prefetch_queue_pairs(std::span<const port::RxFrame> frames, const QueuePairTable& queue_pairs);

}  // namespace uroce::engine
