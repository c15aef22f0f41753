#include "port/tx_batch.h"

#include <algorithm>
#include <cassert>

namespace uroce::port {

TxBatch::~TxBatch() {
  if (stocked_ > 0) queue_.free({frames_.data(), stocked_});
}

TxFrame* TxBatch::next() {
  if (full()) return nullptr;
  if (committed_ == stocked_) {
    stocked_ += queue_.allocate({frames_.data() + stocked_, kFramesMax - stocked_});
    if (committed_ == stocked_) return nullptr;
  }
  return &frames_[committed_];
}

void TxBatch::commit() {
  assert(committed_ < stocked_ && frames_[committed_].length > 0);
  ++committed_;
}

void TxBatch::consume(size_t count) {
  assert(count <= committed_);
  std::move(frames_.begin() + static_cast<ptrdiff_t>(count),
            frames_.begin() + static_cast<ptrdiff_t>(stocked_), frames_.begin());
  committed_ -= count;
  stocked_ -= count;
}

}  // namespace uroce::port
