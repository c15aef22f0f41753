#include "apps/perf/responder.h"

#include <algorithm>

namespace uroce::perf {

Responder::Responder(Endpoint& endpoint, const Round& round)
    : endpoint_(endpoint),
      round_(round),
      memory_(endpoint.source(), endpoint.target(), round, Role::kResponder) {
  if (round_.operation != Operation::kSend) return;
  while (receives_posted_ < endpoint_.receive_depth()) {
    const uint64_t room = endpoint_.receive_depth() - receives_posted_;
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(room, Endpoint::kBatchMax));
    endpoint_.post_receives(receives_posted_, count);
    receives_posted_ += count;
  }
}

void Responder::begin(const Phase& phase) {
  phase_ = phase;
  memory_.prepare(phase);
}

void Responder::pong() {
  if (round_.operation == Operation::kWrite) memory_.mark_source(pongs_);
  endpoint_.post(round_.operation, pongs_, 1);
  ++pongs_;
}

void Responder::step() {
  const Completions found = endpoint_.poll();
  sent_ += found.sent;
  received_ += found.received;
  if (round_.ping_pong()) {
    // A pong is not sent before the one before it completed: the queue stays short whatever the initiator
    // does.
    const bool arrived = round_.operation == Operation::kWrite ? memory_.arrived(pongs_) : received_ > pongs_;
    if (arrived && sent_ == pongs_) pong();
  }
  if (found.received != 0) {
    endpoint_.post_receives(receives_posted_, static_cast<uint32_t>(found.received));
    receives_posted_ += found.received;
  }
}

bool Responder::done(uint64_t end) const {
  if (round_.ping_pong()) return pongs_ == end && sent_ == end;
  return round_.operation != Operation::kSend || received_ == end;
}

}  // namespace uroce::perf
