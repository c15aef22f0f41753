#include "port/tx_batch.h"

#include <algorithm>
#include <utility>

namespace uroce::port {

TxBatch::~TxBatch() {
  if (stocked_ > first_) queue_.free({frames_.data() + first_, stocked_ - first_});
}

bool TxBatch::restock() {
  assert(committed_ == stocked_);
  const auto begin = frames_.begin();
  std::move(begin + static_cast<ptrdiff_t>(first_), begin + static_cast<ptrdiff_t>(committed_), begin);
  committed_ = stocked_ = committed_ - std::exchange(first_, 0);
  if (!full()) stocked_ += queue_.allocate({frames_.data() + stocked_, kFramesMax - stocked_});
  return committed_ < stocked_;
}

}  // namespace uroce::port
