#include "drivers/port/xdp/arrived_pieces.h"

#include <cstring>

namespace uroce::drivers {

bool ArrivedPieces::add(const xdp_desc& piece, bool is_last, port::RxFrame& frame, FreeChunks& chunks) {
  if (length_ == 0) {
    first_ = piece.addr;
    length_ = piece.len;
    fits_ = true;
  } else {
    fits_ = fits_ && piece.len <= memory_.room_at(first_) - length_;
    if (fits_) {
      std::memcpy(memory_.at(first_) + length_, memory_.at(piece.addr), piece.len);
      length_ += piece.len;
    }
    chunks.put(memory_.chunk_of(piece.addr));
  }
  if (!is_last) return false;
  if (fits_) {
    hand_out(first_, length_, frame);
  } else {
    chunks.put(memory_.chunk_of(first_));
    // One writer; readers need a whole value.
    __atomic_store_n(&dropped_, dropped_ + 1, __ATOMIC_RELAXED);
  }
  length_ = 0;
  return fits_;
}

}  // namespace uroce::drivers
