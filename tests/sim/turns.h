#pragma once

#include <vector>

#include "base/values/random.h"
#include "base/values/time.h"
#include "tests/sim/host.h"

namespace uroce::sim {

/// Turns hosts in virtual time. A thread that waits in a call of a host's lets the others go on. One at a
/// time.
class Turns {
 public:
  explicit Turns(uint64_t seed);

  void add(Host& host) { hosts_.push_back(&host); }
  /// Every poller gets a turn, the hosts in an order of its own; true when one of them did something.
  bool round();
  /// To the next moment after a round in which something was done, or else to when something happens,
  /// `next` at the latest.
  void advance(bool busy, Instant next);

 private:
  void let_pass(Duration duration);

  Random random_;
  std::vector<Host*> hosts_;
};

}  // namespace uroce::sim
