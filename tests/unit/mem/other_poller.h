#pragma once

#include <cstdint>

#include "mem/rights/grace_period.h"

namespace uroce::mem::testing {

/// Another poller of the device, in a turn or not, as the test says. No thread waits for it by blocking.
class OtherPoller final : public GracePeriod {
 public:
  void wait() override {}
  void begin(GraceTicket& ticket) override { ticket.observed()[0] = in_turn_ ? turn_ : 0; }
  bool over(GraceTicket& ticket) override {
    return ticket.observed()[0] == 0 || !in_turn_ || ticket.observed()[0] != turn_;
  }

  void begin_turn() { in_turn_ = true; }
  void end_turn() {
    in_turn_ = false;
    ++turn_;
  }

 private:
  bool in_turn_ = false;
  uint64_t turn_ = 1;
};

}  // namespace uroce::mem::testing
