#include "tests/sim/bring_up.h"

#include <stdexcept>

#include "qp/connection/connection.h"

namespace uroce::sim {

namespace {

void step(Host& host, engine::QpSlot& queue_pair, qp::Attributes attributes, qp::State state,
          qp::AttributeMask mask) {
  attributes.state = state;
  if (host.device().modify_queue_pair(queue_pair, attributes, mask | qp::kMaskState) != 0)
    throw std::runtime_error("modify_queue_pair");
}

}  // namespace

void bring_up(Host& host, engine::QpSlot& queue_pair, qp::Type type, const qp::Attributes& attributes) {
  using namespace qp;
  const bool datagrams = type == Type::kUd;
  const bool reliable = qp::is_reliable(type);
  step(host, queue_pair, attributes, State::kInit,
       kMaskPkeyIndex | kMaskPort | (datagrams ? kMaskQkey : kMaskAccessFlags));
  step(host, queue_pair, attributes, State::kRtr,
       (datagrams ? AttributeMask{} : kMaskAv | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn) |
           (reliable ? kMaskMaxDestRdAtomic | kMaskMinRnrTimer : AttributeMask{}));
  step(host, queue_pair, attributes, State::kRts,
       kMaskSqPsn |
           (reliable ? kMaskTimeout | kMaskRetryCount | kMaskRnrRetry | kMaskMaxRdAtomic : AttributeMask{}));
}

}  // namespace uroce::sim
