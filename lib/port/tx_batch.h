#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

#include "port/port.h"

namespace uroce::port {

/// The frames that one turn of a poller sends: filled by the protocol, flushed once per turn by the engine
/// (and earlier only when it is full). Keeps a stock of empty buffers, so that the port is asked once per
/// burst.
class TxBatch {
 public:
  static constexpr size_t kFramesMax = 64;

  explicit TxBatch(PortQueue& queue) : queue_(queue) {}
  TxBatch(const TxBatch&) = delete;
  TxBatch& operator=(const TxBatch&) = delete;
  ~TxBatch();

  /// An empty buffer that becomes part of the batch with commit(), or nullptr when the batch is full or the
  /// port has no buffers: stop producing and try again in a later turn.
  TxFrame* next() {
    if (committed_ == stocked_ && !restock()) [[unlikely]]
      return nullptr;
    return &frames_[committed_];
  }
  /// The frame that next() returned last is complete (length, to_self and to_group set).
  void commit() {
    assert(committed_ < stocked_ && frames_[committed_].length > 0);
    ++committed_;
    claim_ahead();
  }

  [[nodiscard]] bool full() const { return committed_ - first_ == kFramesMax; }
  [[nodiscard]] std::span<TxFrame> frames() { return {frames_.data() + first_, committed_ - first_}; }

  /// The engine has disposed of the first `count` frames.
  void consume(size_t count) {
    assert(count <= committed_ - first_);
    first_ += count;
  }

 private:
  /// The headers of a frame to come. A buffer in which another CPU sent us something is its to write, until
  /// we ask for it; by the time that it is used it is ours.
  void claim_ahead() const {
    constexpr size_t kAhead = 2;
    constexpr size_t kCacheLine = 64;
    if (committed_ + kAhead >= stocked_) return;
    const std::byte* const headers = frames_[committed_ + kAhead].data;
    claim(headers);
    claim(headers + kCacheLine);
  }
  /// CPUs that do not know the instruction take it for none.
  static void claim(const std::byte* line) { asm volatile("prefetchw %0" : : "m"(*line)); }

  /// The stock is used up: complete frames move to the front and empty buffers go behind them. False: there
  /// are none, or no room.
  bool restock();

  PortQueue& queue_;
  std::array<TxFrame, kFramesMax> frames_{};  // [first, committed) complete, [committed, stocked) empty
  size_t first_ = 0;
  size_t committed_ = 0;
  size_t stocked_ = 0;
};

}  // namespace uroce::port
