#pragma once

#include "apps/perf/ends/peer.h"
#include "apps/perf/ends/reception.h"

namespace uroce::perf {

/// The other end is `uroce perf --server`.
class RemotePeer final : public Peer {
 public:
  /// Tells the server the plan and waits until its device is open.
  RemotePeer(client::Channel channel, const Plan& plan);

  Address meet(const Round& round, const Address& initiator) override;
  void begin(const Phase& phase) override;
  void turn() override;
  Outcome finish(uint64_t end) override;

  /// For what is none of a round.
  [[nodiscard]] client::Channel& channel() { return channel_; }

  /// The last message: the server ends without an error.
  void part();
  /// The last message when this end failed.
  void tell(const std::string& failure) noexcept;

 private:
  client::Channel channel_;
  uint32_t turns_ = 0;
};

/// Serves one client until it parts. Throws Failure, after telling the client. Returns the bytes compared.
uint64_t serve(Client& client, const client::DeviceChoice& choice);

}  // namespace uroce::perf
