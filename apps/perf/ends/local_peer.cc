#include "apps/perf/ends/local_peer.h"

#include "client/failure.h"
#include "client/patience.h"

namespace uroce::perf {

Address LocalPeer::meet(const Round& round, const Address& initiator) {
  responder_.reset();
  if (round.layout().area_bytes() > endpoint_.target().size())
    throw client::Failure("the round is not part of the plan");
  endpoint_.begin_round(round.layout());
  responder_.emplace(endpoint_, round);
  const Address address = endpoint_.address();
  endpoint_.connect(initiator);
  return address;
}

Outcome LocalPeer::finish(uint64_t end) {
  client::Patience patience(initiator_);
  while (!responder_->done(end)) {
    responder_->step();
    patience.waited();
  }
  return responder_->verify(end);
}

}  // namespace uroce::perf
