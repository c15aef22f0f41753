#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/values/random.h"
#include "base/values/time.h"
#include "tests/sim/faults.h"
#include "tests/sim/host.h"
#include "tests/sim/turns.h"

namespace uroce::sim {

/// Loses the frame that it is told to, and no other.
class LoseOne final : public Node {
 public:
  /// Of the frames from now on the n-th, counted from 1.
  void lose(uint32_t nth) { left_ = nth; }
  /// It has been lost.
  [[nodiscard]] bool done() const { return left_ == 0; }
  void pass(FramePtr frame, Random& random, const Sink& next) override;

 private:
  uint32_t left_ = 0;
};

/// Two hosts on a link of 25 Gbit/s, in virtual time. One at a time.
class LinkedHosts {
 public:
  struct Options {
    Duration round_trip = microseconds(100);
    uint64_t seed = 1;
  };
  explicit LinkedHosts(const Options& options);

  [[nodiscard]] Host& host(size_t side) { return *hosts_.at(side); }
  [[nodiscard]] Random& random() { return random_; }
  /// What the host of that side sends passes it.
  [[nodiscard]] LoseOne& loss_from(size_t side) { return *losses_.at(side); }

  /// One turn of each, and to the next moment at which there is something to do, `next` at the latest.
  void step(Instant next) { turns_.advance(turns_.round(), next); }
  /// The peer's host is stopped for so long: only the first one turns.
  void stop_second(Duration duration);

 private:
  Random random_;
  Turns turns_;
  std::array<LoseOne*, 2> losses_{};  // in the hosts' paths
  std::array<std::unique_ptr<Host>, 2> hosts_;
};

}  // namespace uroce::sim
