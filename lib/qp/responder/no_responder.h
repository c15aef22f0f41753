#pragma once

#include "base/values/contract.h"
#include "qp/responder/responder.h"

namespace uroce::qp {

/// The responder of a queue pair that only sends (XRC initiator).
class NoResponder final : public Responder {
 public:
  void reset(Psn) override {}
  void receive(const wire::Packet&, Turn& turn) override { turn.counters.add(Counter::kDropInvalidRequest); }
  void lost(const copy::MessageMark&, Turn&) override { UROCE_ASSERT(false); }
};

}  // namespace uroce::qp
