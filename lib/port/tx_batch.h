#pragma once

#include <array>
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
  TxFrame* next();
  /// The frame that next() returned last is complete (length, to_self and to_group set).
  void commit();

  [[nodiscard]] bool full() const { return committed_ == kFramesMax; }
  [[nodiscard]] std::span<TxFrame> frames() { return {frames_.data(), committed_}; }

  /// The engine has disposed of the first `count` frames; later ones move up.
  void consume(size_t count);

 private:
  PortQueue& queue_;
  std::array<TxFrame, kFramesMax> frames_{};  // [0, committed) complete, [committed, stocked) empty buffers
  size_t committed_ = 0;
  size_t stocked_ = 0;
};

}  // namespace uroce::port
