#include <chrono>

#include "apps/perf/ends/local_peer.h"
#include "apps/perf/ends/messages.h"
#include "apps/perf/ends/remote_peer.h"
#include "apps/perf/load/load_server.h"
#include "apps/perf/measurement/cpu_meter.h"
#include "client/failure.h"

namespace uroce::perf {
namespace {

/// The dialogue with one client.
class Session {
 public:
  Session(Client& client, const client::DeviceChoice& choice)
      : channel_(client.channel), choice_(choice), plan_(client.plan), end_(choice, plan_, channel_.peer()) {
    channel_.send({{"ready", true}});
  }

  uint64_t run() {
    for (;;) {
      const nlohmann::json message = next();
      if (message.contains("part")) return verified_;
      if (message.contains("load")) {
        end_.leave();
        verified_ += serve_load(channel_, choice_, plan_, message["load"]);
      } else if (message.contains("round")) {
        Round round = round_from(message["round"]);
        round.service = plan_.service;
        if (!has_operation(round.service, round.operation))
          throw client::Failure("the service has no such operation");
        const Address own = end_.meet(round, address_from(message.value("address", nlohmann::json())));
        channel_.send({{"address", to_json(own)}});
      } else if (!end_.has_met()) {
        throw client::Failure("the client names no round");
      } else if (message.contains("phase")) {
        end_.begin(phase_from(message["phase"]));
        cpu_ = {};
        channel_.send({{"ready", true}});
      } else {
        finish(number_from(message, "finish"));
      }
    }
  }

 private:
  /// Answers the initiator's messages until the client has something to say.
  nlohmann::json next() {
    constexpr uint32_t kTurnsBetweenLooks = 512;
    constexpr std::chrono::seconds kSilenceMax{60};
    if (!end_.has_met()) return channel_.receive(kSilenceMax);
    for (uint32_t turns = 1;; ++turns) {
      end_.turn();
      if (turns % kTurnsBetweenLooks != 0) continue;
      client::throw_if_interrupted();
      if (auto message = channel_.receive_if_any()) return *std::move(message);
    }
  }

  void finish(uint64_t end) {
    const CpuUse used = cpu_.used();
    const Outcome outcome = end_.finish(end);
    verified_ += outcome.bytes_verified;
    channel_.send(
        {{"verified", outcome.bytes_verified}, {"received", outcome.received}, {"cpu_s", used.seconds}});
  }

  client::Channel& channel_;
  client::DeviceChoice choice_;
  Plan plan_;
  LocalPeer end_;
  CpuMeter cpu_;  // of a phase
  uint64_t verified_ = 0;
};

}  // namespace

uint64_t serve(Client& client, const client::DeviceChoice& choice) {
  try {
    return Session(client, choice).run();
  } catch (const client::Failure& failure) {
    try {
      client.channel.send({{"error", failure.what()}});
    } catch (const client::Failure&) {
      // The connection itself is what failed; the first failure is the one to tell.
    }
    throw;
  }
}

}  // namespace uroce::perf
