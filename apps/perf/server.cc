#include <chrono>
#include <optional>

#include "apps/perf/ends/messages.h"
#include "apps/perf/ends/remote_peer.h"
#include "apps/perf/ends/responder.h"
#include "apps/perf/load/load_server.h"
#include "apps/perf/measurement/cpu_meter.h"
#include "client/failure.h"
#include "client/patience.h"

namespace uroce::perf {
namespace {

/// The dialogue with one client.
class Session {
 public:
  Session(Client& client, const client::DeviceChoice& choice)
      : channel_(client.channel), choice_(choice), plan_(client.plan), endpoint_(choice, plan_) {
    channel_.send({{"ready", true}});
  }

  uint64_t run() {
    for (;;) {
      const nlohmann::json message = next();
      if (message.contains("part")) return verified_;
      if (message.contains("load")) {
        responder_.reset();
        verified_ += serve_load(channel_, choice_, plan_, message["load"]);
      } else if (message.contains("round")) {
        Round round = round_from(message["round"]);
        round.service = plan_.service;
        meet(round, address_from(message.value("address", nlohmann::json())));
      } else if (!responder_) {
        throw client::Failure("the client names no round");
      } else if (message.contains("phase")) {
        responder_->begin(phase_from(message["phase"]));
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
    if (!responder_) return channel_.receive(kSilenceMax);
    for (uint32_t turns = 1;; ++turns) {
      responder_->step();
      if (turns % kTurnsBetweenLooks != 0) continue;
      client::throw_if_interrupted();
      if (auto message = channel_.receive_if_any()) return *std::move(message);
    }
  }

  void meet(const Round& round, const Address& client) {
    responder_.reset();
    if (!has_operation(round.service, round.operation))
      throw client::Failure("the service has no such operation");
    if (round.layout().area_bytes() > endpoint_.target().size())
      throw client::Failure("the round is not part of the plan");
    endpoint_.begin_round(round.layout());
    responder_.emplace(endpoint_, round);
    const Address own = endpoint_.address();
    endpoint_.connect(client);
    channel_.send({{"address", to_json(own)}});
  }

  void finish(uint64_t end) {
    const CpuUse used = cpu_.used();
    client::Patience patience(channel_.peer());
    while (!responder_->done(end)) {
      responder_->step();
      patience.waited();
    }
    const Outcome outcome = responder_->verify(end);
    verified_ += outcome.bytes_verified;
    channel_.send(
        {{"verified", outcome.bytes_verified}, {"received", outcome.received}, {"cpu_s", used.seconds}});
  }

  client::Channel& channel_;
  client::DeviceChoice choice_;
  Plan plan_;
  Endpoint endpoint_;
  std::optional<Responder> responder_;
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
