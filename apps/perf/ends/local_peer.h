#pragma once

#include <optional>
#include <string>

#include "apps/perf/ends/peer.h"
#include "apps/perf/ends/responder.h"

namespace uroce::perf {

/// The other end where it is: turned by the initiator's thread, or by the server.
class LocalPeer final : public Peer {
 public:
  /// `initiator`: its name, for the text of an error.
  LocalPeer(const client::DeviceChoice& choice, const Plan& plan, std::string initiator)
      : endpoint_(choice, plan), initiator_(std::move(initiator)) {}

  [[nodiscard]] bool has_met() const { return responder_.has_value(); }
  /// There is no round any more.
  void leave() { responder_.reset(); }

  Address meet(const Round& round, const Address& initiator) override;
  void begin(const Phase& phase) override { responder_->begin(phase); }
  void turn() override { responder_->step(); }
  Outcome finish(uint64_t end) override;

 private:
  Endpoint endpoint_;
  std::string initiator_;
  std::optional<Responder> responder_;
};

}  // namespace uroce::perf
