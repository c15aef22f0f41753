#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/values/time.h"

namespace uroce::port {

/// Whether the CPU that reads a queue's frames shares a cache with the one that writes them, which changes as
/// threads move. If it does not, lines that the reader has had come back slowly one by one, and payloads of
/// long frames are streamed to memory (non-temporal stores): 64 KiB WRITEs then have twice the rate
/// (perf/run --only two_threads). Cost: each streamed frame has an sfence, and of one in 128 long frames a
/// line is timed. Belongs to the thread that turns the queue.
class ReaderDistance {
 public:
  /// How long the calling CPU takes to get the cache line at `line`, whose bytes stay, for writing. 0: that
  /// cannot be told.
  using TimeClaim = Duration (*)(std::byte* line);

  /// Without `time_claim` the reader counts as near, as do both ends on one thread and ports whose driver
  /// copies.
  explicit ReaderDistance(TimeClaim time_claim = nullptr) : time_claim_(time_claim) {}

  [[nodiscard]] bool is_far() const { return far_; }

  /// Before a long frame is written. `line` is a cache line of its buffer that nothing has claimed, and that
  /// the reader has read if it had this buffer before.
  void observe(std::byte* line) {
    if (--until_measured_ == 0 && time_claim_ != nullptr) [[unlikely]]
      measure(line);
  }

 private:
  // Lines that another core of the same cache has had take 40 to 60 ns, from elsewhere 130 ns and more.
  static constexpr int64_t kNearNs = 70;
  static constexpr int64_t kFarNs = 100;
  static constexpr int64_t kInterruptedNs = 400;
  static constexpr int64_t kWeight = 4;
  /// A measurement waits for all stores before it.
  static constexpr uint8_t kFramesPerMeasurement = 128;

  [[gnu::noinline]] void measure(std::byte* line) {
    until_measured_ = kFramesPerMeasurement;
    const int64_t taken = std::min(time_claim_(line).ns, kInterruptedNs);
    average_ns_ += (taken - average_ns_) / kWeight;
    far_ = average_ns_ > (far_ ? kNearNs : kFarNs);
  }

  TimeClaim time_claim_;
  int64_t average_ns_ = 0;
  uint8_t until_measured_ = kFramesPerMeasurement;
  bool far_ = false;
};

}  // namespace uroce::port
