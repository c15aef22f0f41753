#include "queue/work_queue.h"

#include <algorithm>
#include <bit>

#include "base/contract.h"

namespace uroce::queue {

template <typename Request>
WorkQueue<Request>::WorkQueue(const Options& options) : options_(options) {
  static_assert(std::is_trivially_destructible_v<Request>);
  constexpr size_t kLine = QueueMemory::kAlignment;
  const uint32_t slots = std::bit_ceil(std::max(options.depth, 1u));
  constexpr bool kSends = std::is_same_v<Request, SendRequest>;
  const size_t list = size_t{options.segments_max} * sizeof(Segment) + (kSends ? sizeof(AtomicOperands) : 0);
  const size_t tail = std::max({list, size_t{options.inline_max}, kSends ? kOperationBytes : size_t{0}});
  UROCE_ASSERT(slots >= options.depth);
  mask_ = slots - 1;
  attachment_offset_ =
      (sizeof(Request) + tail + kAttachmentAlignment - 1) / kAttachmentAlignment * kAttachmentAlignment;
  stride_ = (attachment_offset_ + options.attachment_bytes + kLine - 1) / kLine * kLine;
  memory_ = QueueMemory(slots * stride_, options.memory);
  for (uint32_t i = 0; i < slots; ++i) new (memory_.get() + i * stride_) Request();
}

template <typename Request>
bool WorkQueue<Request>::look_for_room() {
  retired_seen_ = retired_.load(std::memory_order_acquire);   // pairs with retire(): it is done with the slot
  UROCE_ASSERT(reserved_ - retired_seen_ <= options_.depth);  // none was retired that was not published
  return reserved_ - retired_seen_ < options_.depth;
}

template class WorkQueue<SendRequest>;
template class WorkQueue<ReceiveRequest>;

}  // namespace uroce::queue
