#include "apps/perf/ends/local_peer.h"

#include "client/patience.h"

namespace uroce::perf {

Address LocalPeer::meet(const Round& round, const Address& initiator) {
  responder_.reset();
  endpoint_.begin_round(round.layout());
  responder_.emplace(endpoint_, round);
  const Address address = endpoint_.address();
  endpoint_.connect(initiator);
  return address;
}

Outcome LocalPeer::finish(uint64_t end) {
  client::Patience patience("the other end of this process");
  while (!responder_->done(end)) {
    responder_->step();
    patience.waited();
  }
  return responder_->verify(end);
}

}  // namespace uroce::perf
