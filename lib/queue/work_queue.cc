// Decision: no slot is touched before it is used, and a queue of no requests has no memory. Rings of 16 KiB
// and more get their pages as they are used; shorter ones lie in pages that are there. Cost: a page fault for
// each page of a long ring, once (perf/run --only scale_memory).
#include "queue/work_queue.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "base/tables/pooled_memory.h"
#include "base/threads/claim_line.h"
#include "base/values/contract.h"

namespace uroce::queue {

namespace {

constexpr size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

template <typename Request>
WorkQueue<Request>::Ring::Ring(const Options& options)
    : depth(options.depth),
      from(options.memory != nullptr ? options.memory : pooled_memory()),
      segments_max(options.segments_max),
      attachment_bytes(options.attachment_bytes) {
  // So that requests are there as soon as there is memory.
  static_assert(std::is_aggregate_v<Request> && std::is_trivially_destructible_v<Request>);
  const uint32_t count = std::bit_ceil(std::max(options.depth, 1u));
  constexpr bool kSends = std::is_same_v<Request, SendRequest>;
  const size_t list = size_t{options.segments_max} * sizeof(Segment) + (kSends ? sizeof(AtomicOperands) : 0);
  const size_t tail = std::max({list, size_t{options.inline_max}, kSends ? kOperationBytes : size_t{0}});
  UROCE_ASSERT(count >= options.depth);
  attachment_offset = static_cast<uint32_t>(round_up(sizeof(Request) + tail, kAttachmentAlignment));
  stride = round_up(attachment_offset + options.attachment_bytes, kCacheLine);
  mask = count - 1;
  if (depth != 0) memory = static_cast<std::byte*>(from->allocate(bytes(), kCacheLine));
}

template <typename Request>
WorkQueue<Request>::Ring::~Ring() {
  if (memory != nullptr) from->deallocate(memory, bytes(), kCacheLine);
}

template <typename Request>
bool WorkQueue<Request>::look_for_room() {
  static_assert(offsetof(WorkQueue, ring_) == kPostingAt && sizeof(WorkQueue) == kPostingAt + 56);
  retired_seen_ = retired_.load(std::memory_order_acquire);  // pairs with retire(): it is done with the slot
  UROCE_ASSERT(reserved_ - retired_seen_ <= ring_.depth);    // none was retired that was not published
  return reserved_ - retired_seen_ < ring_.depth;
}

template class WorkQueue<SendRequest>;
template class WorkQueue<ReceiveRequest>;

}  // namespace uroce::queue
