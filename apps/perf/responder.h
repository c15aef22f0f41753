#pragma once

#include "apps/perf/endpoint.h"
#include "apps/perf/round.h"

namespace uroce::perf {

/// The answering end of a round: keeps receives posted, sends the pongs, and turns its device by polling.
class Responder {
 public:
  /// `endpoint` has begun the round. Posts the receives, so it comes before the initiator's first message.
  Responder(Endpoint& endpoint, const Round& round);

  void begin(const Phase& phase);

  /// One look at the completion queue and the memory. Hot.
  void step();

  /// The initiator has sent the messages [phase.first, end): true when all that belongs to them happened
  /// here.
  [[nodiscard]] bool done(uint64_t end) const;

  uint64_t verify(uint64_t end) { return memory_.verify(phase_, end); }

 private:
  void pong();

  Endpoint& endpoint_;
  Round round_;
  RoundMemory memory_;
  Phase phase_;
  uint64_t receives_posted_ = 0;
  uint64_t received_ = 0;
  uint64_t pongs_ = 0;
  uint64_t sent_ = 0;  // pongs whose completion was seen
};

}  // namespace uroce::perf
