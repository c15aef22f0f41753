#pragma once

#include <cstdint>
#include <vector>

#include "tests/sim/faults.h"

namespace uroce::sim {

/// The queue of a switch before one of its ports: a link of some rate, room for some bytes, and marks by RED
/// (CE on what is ECN-capable). All that goes to the port passes here, from whichever sender.
class SwitchQueue {
 public:
  struct Options {
    int64_t picoseconds_per_byte = 320;  // 25 Gbit/s
    int64_t bytes_max = 400'000;
    // None is marked below the least, `most_of_100` at the most, all above.
    int64_t mark_least = 5'000;
    int64_t mark_most = 200'000;
    uint64_t most_of_100 = 1;
  };
  explicit SwitchQueue(const Options& options) : options_(options) {}

  /// Marks the frame and puts off its arrival. False: there is no room.
  bool pass(Frame& frame, Random& random);

  /// Forgets what was seen so far.
  void begin_to_count();
  [[nodiscard]] int64_t bytes_p99() const;
  [[nodiscard]] uint64_t marked() const { return marked_; }
  [[nodiscard]] uint64_t lost() const { return lost_; }

 private:
  [[nodiscard]] bool marks(int64_t bytes, Random& random) const;

  const Options options_;
  Instant free_{};
  std::vector<int64_t> seen_;  // bytes, by each frame
  uint64_t marked_ = 0;
  uint64_t lost_ = 0;
};

/// The way of one sender to that queue.
class ThroughSwitch final : public Node {
 public:
  explicit ThroughSwitch(SwitchQueue& queue) : queue_(queue) {}
  void pass(FramePtr frame, Random& random, const Sink& next) override {
    if (queue_.pass(*frame, random)) next(std::move(frame));
  }

 private:
  SwitchQueue& queue_;
};

}  // namespace uroce::sim
