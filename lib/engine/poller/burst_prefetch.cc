// The queue pairs of a burst are prefetched together before its first packet is looked at, while packets of
// several queue pairs come. What the table has of a number, the queue pair and its transport are three waits
// for memory in a row. For a whole burst they are three in all. Destinations are read where they lie in
// frames without options, which is a hint and no parsing. Cost: a few instructions for a lone packet
// (perf/run --only scale, instructions).
#include "engine/poller/burst_prefetch.h"

#include <array>
#include <cstddef>

#include "engine/poller/poller_qp.h"
#include "wire/destination.h"

namespace uroce::engine {

void prefetch_queue_pairs(std::span<const port::RxFrame> frames, const QueuePairTable& queue_pairs) {
  // Of the lines of more, the first would be gone again before they are used.
  constexpr size_t kQueuePairsMax = 64;
  for (const port::RxFrame& frame : frames) __builtin_prefetch(frame.data);
  std::array<QpNumber, kQueuePairsMax> numbers;
  size_t count = 0;
  QpNumber last{0};
  for (const port::RxFrame& frame : frames) {
    const QpNumber number = wire::destination_in({frame.data, frame.length});
    if (number == last) continue;
    last = number;
    queue_pairs.prefetch(number);
    numbers[count++] = number;
    if (count == kQueuePairsMax) break;
  }
  std::array<const PollerQp*, kQueuePairsMax> entries;
  size_t found = 0;
  for (size_t i = 0; i < count; ++i) {
    const PollerQp* const entry = queue_pairs.find(numbers[i]);
    if (entry == nullptr) continue;
    entry->prefetch_own();
    entries[found++] = entry;
  }
  for (size_t i = 0; i < found; ++i) entries[i]->prefetch_transport();
}

}  // namespace uroce::engine
