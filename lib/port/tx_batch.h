#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/values/contract.h"
#include "port/port.h"
#include "port/reader_distance.h"
#include "port/short_frame.h"

namespace uroce::port {

/// The frames that one turn of a poller sends: filled by the protocol, flushed once per turn by the engine
/// (and earlier only when it is full). Keeps a stock of empty buffers, so that the port is asked once per
/// turn, and when no frame waits.
class TxBatch {
 public:
  static constexpr size_t kFramesMax = 64;

  /// `time_claim`: see ReaderDistance.
  explicit TxBatch(PortQueue& queue, ReaderDistance::TimeClaim time_claim = nullptr)
      : queue_(queue), icrc_on_host_(queue.wants_icrc_on_host()), reader_(time_claim) {}
  TxBatch(const TxBatch&) = delete;
  TxBatch& operator=(const TxBatch&) = delete;
  ~TxBatch();

  /// An empty buffer that becomes part of the batch with commit(), or nullptr when the batch is full or the
  /// port has no buffers: stop producing and try again in a later turn.
  TxFrame* next() {
    if (committed_ == stocked_ && !restock()) [[unlikely]] {
      ran_dry_ |= !full();
      return nullptr;
    }
    return &frames_[committed_];
  }
  /// Up to `most` empty buffers in a row, of which commit() takes the first; none where next() has none.
  std::span<TxFrame> next(size_t most) {
    TxFrame* const first = next();
    return first != nullptr ? std::span(first, std::min(most, stocked_ - committed_)) : std::span<TxFrame>();
  }
  /// Before `frame`, one of next(most), is written: claims the buffer that is written some frames later.
  void come_to(const TxFrame& frame) const {
    const TxFrame* const ahead = &frame + 1 + kClaimedAhead;
    if (ahead < frames_.data() + stocked_) claim_frame(ahead->data);
  }
  /// The first `count` frames of what next() returned last are complete (length and flags are set).
  void commit(size_t count) {
    UROCE_ASSERT(count <= stocked_ - committed_);
    committed_ += count;
  }
  /// The frame that next() returned last is complete (length and flags are set).
  void commit() {
    UROCE_ASSERT(committed_ < stocked_ && frames_[committed_].length > 0);
    come_to(frames_[committed_]);
    ++committed_;
  }
  /// The frame that next() returned last is complete, and goes before all that wait: the peer has waited for
  /// it for a round trip.
  void commit_first() {
    commit();
    std::rotate(frames_.data() + first_, frames_.data() + committed_ - 1, frames_.data() + committed_);
  }

  /// The last step in making a frame, for example a checksum over all of it.
  using FinalStep = void (*)(std::byte* data, size_t bytes, uint32_t seed);
  /// Puts `step(data, bytes, seed)`, of the frame that is about to be committed, off until the next one is
  /// made, or the batch is asked for its frames: what has just been written in fields cannot be read as
  /// vectors before the CPU is done with all stores up to there, and the frame may have been in another CPU's
  /// cache.
  void finish_later(FinalStep step, std::byte* data, size_t bytes, uint32_t seed) {
    finish();
    due_ = step;
    due_data_ = data;
    due_bytes_ = bytes;
    due_seed_ = seed;
  }
  /// Whether `frame`, whose to_self and on_host are set, needs an ICRC: on this host it may be left out.
  [[nodiscard]] bool wants_icrc(const TxFrame& frame) const {
    return icrc_on_host_ || !(frame.to_self || frame.on_host);
  }
  /// Runs the step that finish_later() put off, if there is one.
  void finish() {
    if (FinalStep const step = std::exchange(due_, nullptr)) step(due_data_, due_bytes_, due_seed_);
  }

  [[nodiscard]] bool full() const { return committed_ - first_ == kFramesMax; }
  [[nodiscard]] bool empty() const { return committed_ == first_; }
  [[nodiscard]] size_t size() const { return committed_ - first_; }
  /// How long the frame is that was committed last. The batch is not empty(); final steps may be due.
  [[nodiscard]] uint32_t last_length() const {
    UROCE_ASSERT(!empty());
    return frames_[committed_ - 1].length;
  }
  /// Bytes of the frames behind the first `count`. Final steps may be due.
  [[nodiscard]] uint32_t bytes_behind(size_t count) const {
    uint32_t bytes = 0;
    for (size_t i = first_ + count; i < committed_; ++i) bytes += frames_[i].length;
    return bytes;
  }
  /// The frames of the batch in order, after their final steps.
  [[nodiscard]] std::span<TxFrame> frames() {
    finish();
    return {frames_.data() + first_, committed_ - first_};
  }

  /// How far the reader of the batch's frames is.
  [[nodiscard]] ReaderDistance& reader() { return reader_; }

  /// Whether next() has found no buffer, though the batch had room, since this was asked last.
  bool take_ran_dry() { return std::exchange(ran_dry_, false); }

  /// The engine has disposed of the first `count` frames.
  void consume(size_t count) {
    UROCE_ASSERT(count <= committed_ - first_);
    first_ += count;
    recent_ = std::max(count, recent_ - std::min<size_t>(recent_, 1));
    // For the next turn, now that no frame waits.
    if (stocked_ - committed_ < kStockLeft) restock();
  }

 private:
  /// How many buffers behind the next frame have been claimed. The CPU that wrote a buffer last, perhaps the
  /// peer's, owns its cache lines; claimed so early, they are ours when the buffer is written.
  static constexpr size_t kClaimedAhead = 6;

  /// Complete frames and what is left of the stock move to the front, and new empty buffers go behind them.
  /// False: there are none, or no room.
  bool restock();

  PortQueue& queue_;
  const bool icrc_on_host_;
  ReaderDistance reader_;
  FinalStep due_ = nullptr;  // of a committed frame, or the next one; nullptr: none
  std::byte* due_data_ = nullptr;
  size_t due_bytes_ = 0;
  uint32_t due_seed_ = 0;
  std::array<TxFrame, kFramesMax> frames_{};  // [first, committed) complete, [committed, stocked) empty
  // A stock is as large as turns of late have been: buffers that another CPU has had until now come at the
  // price of its cache lines, and a single frame should not wait for those of 64.
  static constexpr size_t kStockMin = 4;
  static constexpr size_t kStockLeft = 2;  // by a turn for the next one, at least
  bool ran_dry_ = false;
  size_t recent_ = 0;
  size_t first_ = 0;
  size_t committed_ = 0;
  size_t stocked_ = 0;
};

}  // namespace uroce::port
