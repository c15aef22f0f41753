#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/values/contract.h"
#include "port/port.h"

namespace uroce::engine {

/// Frames that a poller sends to its own port, in order. A ring of fixed size, of one thread.
class LoopRing {
 public:
  static constexpr size_t kFramesMax = 1024;

  LoopRing() : frames_(kFramesMax) {}

  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] size_t room() const { return kFramesMax - count_; }

  /// Adds a frame; there is room() for it.
  void push(const port::RxFrame& frame) {
    UROCE_ASSERT(room() > 0 && frame.data != nullptr);
    frames_[(head_ + count_++) % kFramesMax] = frame;
  }

  /// Takes the oldest frames into a prefix of `frames`; returns how many.
  size_t take(std::span<port::RxFrame> frames) {
    const size_t taken = std::min(frames.size(), count_);
    for (port::RxFrame& frame : frames.first(taken)) {
      frame = frames_[head_];
      UROCE_ASSERT(frame.data != nullptr);
      head_ = (head_ + 1) % kFramesMax;
    }
    count_ -= taken;
    return taken;
  }

 private:
  std::vector<port::RxFrame> frames_;
  size_t head_ = 0;
  size_t count_ = 0;
};

}  // namespace uroce::engine
