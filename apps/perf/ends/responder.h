#pragma once

#include "apps/perf/ends/arrivals.h"
#include "apps/perf/ends/endpoint.h"
#include "apps/perf/ends/round.h"
#include "client/patience.h"

namespace uroce::perf {

/// What came of a phase.
struct Outcome {
  uint64_t bytes_verified = 0;
  uint64_t received = 0;  // messages
  double cpu_s = 0;       // of the other process, if there is one, from begin() until the initiator was done
};

/// The answering end of a round: keeps receives posted, sends the pongs, and turns its device by polling.
class Responder {
 public:
  /// `endpoint` has begun the round. Posts the receives, so it comes before the initiator's first message.
  Responder(Endpoint& endpoint, const Round& round);

  void begin(const Phase& phase);

  /// One look at the completion queue and the memory. Hot.
  void step();

  /// The initiator has sent the messages [phase.first, end): true when all that belongs to them happened
  /// here, or, on an unreliable service, nothing more of it comes.
  [[nodiscard]] bool done(uint64_t end);

  Outcome verify(uint64_t end);

 private:
  void answer_reliable(const Completions& found);
  void answer_unreliable(const Completions& found);
  void tell_credit(bool idle);
  void pong();

  Endpoint& endpoint_;
  Round round_;
  RoundMemory memory_;
  Phase phase_;
  uint64_t receives_posted_ = 0;
  uint64_t receives_owed_ = 0;  // taken by messages, and not posted again
  uint64_t received_ = 0;
  uint64_t pongs_ = 0;
  uint64_t sent_ = 0;  // pongs whose completion was seen

  // Unreliable services.
  Arrivals arrivals_;
  uint64_t posted_ = 0;  // answers
  uint64_t told_ = 0;    // to the initiator: what is lower has come, or is lost
  uint32_t idle_turns_ = 0;
  client::Silence quiet_;
};

}  // namespace uroce::perf
