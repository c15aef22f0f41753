#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "apps/perf/ends/endpoint.h"
#include "apps/perf/ends/peer.h"
#include "apps/perf/ends/round.h"
#include "apps/perf/measurement/cpu_meter.h"
#include "client/histogram.h"
#include "client/patience.h"

namespace uroce::perf {

/// When a phase ends: after so many messages, or after so much time.
struct Stop {
  std::optional<uint64_t> messages;
  std::chrono::nanoseconds time{};
};

/// What a stretch of messages took.
struct Stretch {
  uint64_t messages = 0;
  double seconds = 0;
  std::vector<double> rate_samples = {};  // messages a second in parts of the time
  CpuUse cpu = {};
};

/// What ping() measures.
struct RoundTrips {
  uint64_t answered = 0;
  client::Histogram all;        // in nanoseconds, of most pings: until the pong
  client::Histogram intervals;  // of the others: until the next message may go
  std::vector<double> p50_us;   // in parts of the time
  std::vector<double> p99_us;
};

/// The posting end of a round.
class Initiator {
 public:
  /// `endpoint` is connected to `peer` for the round.
  Initiator(Endpoint& endpoint, Peer& peer, const Round& round);

  /// Memory of both ends gets the data of a new phase.
  void begin(uint64_t seed);

  /// How many messages of the last phase the other end got; after ping(), how many answers came.
  [[nodiscard]] uint64_t received() const { return received_there_; }
  /// CPU time of the last phase that the other end's process took, if it is not this one.
  [[nodiscard]] double peer_cpu_s() const { return peer_cpu_s_; }

  /// Keeps as many messages outstanding as the round's depth says, until `stop`. The time is that from the
  /// first post to the last completion.
  Stretch stream(const Stop& stop);

  /// One message after the other, until `stop`. A sample is a round trip: ping and pong, or post to
  /// completion of a READ.
  Stretch ping(const Stop& stop, RoundTrips& samples);

  /// Waits for the other end and checks the memory of both; returns the bytes compared.
  uint64_t finish();

 private:
  using Clock = std::chrono::steady_clock;

  void post_batches(uint64_t batch, uint64_t window, uint64_t end);
  void replenish(uint64_t received);
  Completions poll();
  bool ping_once(client::Patience& patience);
  bool ping_unreliably();

  Endpoint& endpoint_;
  Peer& peer_;
  Round round_;
  RoundMemory memory_;
  Phase phase_;
  uint64_t posted_ = 0;
  uint64_t completed_ = 0;
  uint64_t received_ = 0;
  uint64_t received_there_ = 0;
  double peer_cpu_s_ = 0;

  uint64_t settled_ = 0;  // messages that have come, or are lost

  // Unreliable services.
  Arrivals arrivals_;  // of pongs
  uint64_t receives_posted_ = 0;
};

}  // namespace uroce::perf
