#include "apps/perf/ends/remote_peer.h"

#include "apps/perf/ends/messages.h"

namespace uroce::perf {

RemotePeer::RemotePeer(client::Channel channel, const Plan& plan) : channel_(std::move(channel)) {
  channel_.send({{"plan", to_json(plan)}});
  channel_.receive();
}

Address RemotePeer::meet(const Round& round, const Address& initiator) {
  channel_.send({{"round", to_json(round)}, {"address", to_json(initiator)}});
  const nlohmann::json answer = channel_.receive();
  return address_from(answer.value("address", nlohmann::json()));
}

void RemotePeer::begin(const Phase& phase) {
  channel_.send({{"phase", to_json(phase)}});
  channel_.receive();
}

void RemotePeer::turn() {
  // A system call, so not on every turn. Throws when the server died or told an error.
  constexpr uint32_t kTurnsBetweenLooks = 4096;
  if (++turns_ % kTurnsBetweenLooks == 0) channel_.receive_if_any();
}

Outcome RemotePeer::finish(uint64_t end) {
  channel_.send({{"finish", end}});
  const nlohmann::json answer = channel_.receive();
  constexpr double kSecondsMax = 1e9;
  return {.bytes_verified = number_from(answer, "verified"),
          .received = number_from(answer, "received"),
          .cpu_s = real_from(answer, "cpu_s", kSecondsMax)};
}

void RemotePeer::part() { channel_.send({{"part", true}}); }

void RemotePeer::tell(const std::string& failure) noexcept {
  try {
    channel_.send({{"error", failure}});
  } catch (...) {
    // The server is not there to be told.
  }
}

}  // namespace uroce::perf
