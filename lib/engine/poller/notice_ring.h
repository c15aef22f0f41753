#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/threads/spsc_ring.h"
#include "engine/platform/parker.h"
#include "qp/attributes/notice.h"

namespace uroce::engine {

/// What one poller's queue pairs have to say, on its way to the thread that writes the log: the poller waits
/// for no disk and no terminal. What finds no room is counted.
class NoticeRing final : public qp::NoticeListener {
 public:
  enum class Wanted : uint8_t {
    kFailures,    // of queue pairs
    kEverything,  // also what was ordered: states and invalidations
  };
  static constexpr size_t kNoticesMax = 256;

  /// `reader` sleeps there when there is nothing to read; outlives this.
  NoticeRing(Parker& reader, Wanted wanted) : reader_(reader), wanted_(wanted) {}

  /// In a turn of the poller.
  void note(const qp::Notice& notice) override {
    if (wanted_ == Wanted::kFailures && notice.failure == qp::Failure::kNone) return;
    // Relaxed: the poller alone writes it.
    if (!ring_.push(notice))
      lost_.store(lost_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    pending_.store(true, std::memory_order_seq_cst);  // partner: the reader that falls asleep
    reader_.wake();
  }

  // The reader.

  [[nodiscard]] bool pending() const { return pending_.load(std::memory_order_seq_cst); }
  /// Gives take(notice) each one that there is. How many were lost since the last time.
  template <typename Take>
  uint64_t take_all(Take take) {
    pending_.store(false, std::memory_order_seq_cst);  // before the read: a later notice sets it again
    for (qp::Notice notice; ring_.pop(notice);) take(notice);
    const uint64_t lost = lost_.load(std::memory_order_relaxed);  // a count
    const uint64_t newly = lost - told_;
    told_ = lost;
    return newly;
  }

 private:
  Parker& reader_;
  const Wanted wanted_;
  SpscRing<qp::Notice> ring_{kNoticesMax};
  std::atomic<bool> pending_{false};
  std::atomic<uint64_t> lost_{0};
  uint64_t told_ = 0;  // the reader's
};

}  // namespace uroce::engine
