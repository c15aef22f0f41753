#pragma once

#include <optional>

#include "apps/perf/ends/peer.h"
#include "apps/perf/ends/responder.h"

namespace uroce::perf {

/// The other end in this process, turned by the same thread.
class LocalPeer final : public Peer {
 public:
  LocalPeer(const client::DeviceChoice& choice, const Plan& plan) : endpoint_(choice, plan) {}

  [[nodiscard]] const Endpoint& endpoint() const { return endpoint_; }

  Address meet(const Round& round, const Address& initiator) override;
  void begin(const Phase& phase) override { responder_->begin(phase); }
  void turn() override { responder_->step(); }
  Outcome finish(uint64_t end) override;

 private:
  Endpoint endpoint_;
  std::optional<Responder> responder_;
};

}  // namespace uroce::perf
