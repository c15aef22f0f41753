// Decision: buffers are taken at the end of a turn, as many as recent turns have sent. They come from another
// CPU's cache, and taking 64 at a time would delay every 32nd reply.
#include "port/tx_batch.h"

#include <algorithm>
#include <utility>

namespace uroce::port {

TxBatch::~TxBatch() {
  if (stocked_ > first_) queue_.free({frames_.data() + first_, stocked_ - first_});
}

bool TxBatch::restock() {
  const auto begin = frames_.begin();
  std::move(begin + static_cast<ptrdiff_t>(first_), begin + static_cast<ptrdiff_t>(stocked_), begin);
  committed_ -= first_;
  stocked_ -= std::exchange(first_, 0);
  const size_t wanted = std::min(std::max({recent_, committed_, kStockMin}), kFramesMax - stocked_);
  const size_t before = stocked_;
  if (wanted > 0) stocked_ += queue_.allocate({frames_.data() + stocked_, wanted});
  for (size_t i = before; i < std::min(stocked_, committed_ + 1 + kClaimedAhead); ++i)
    claim_frame(frames_[i].data);
  return committed_ < stocked_;
}

}  // namespace uroce::port
