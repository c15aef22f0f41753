#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/values/random.h"
#include "base/values/time.h"
#include "tests/sim/atomic_traffic.h"
#include "tests/sim/endpoint.h"
#include "tests/sim/flow.h"
#include "tests/sim/follow_judge.h"
#include "tests/sim/host.h"
#include "tests/sim/key_traffic.h"
#include "tests/sim/network.h"
#include "tests/sim/network_conditions.h"
#include "tests/sim/unanswered_traffic.h"

namespace uroce::sim {

/// A host that is not turned for a while, as when its process is stopped.
struct Pause {
  size_t side = 0;
  Instant begin = kNever;
  Instant end = kNever;
};

/// What the two machines are like.
struct Machines {
  engine::PollerMode mode = engine::PollerMode::kDedicated;
  uint16_t pollers = 1;
  Steering steering = Steering::kHash;
  bool follow_packets = true;   // queue pairs do
  Duration starvation{};        // now and then one poller is not turned for up to this long
  bool own_addresses = false;   // half of the connections do not leave their device
  bool ask_neighbours = false;  // MACs are found out over the wire, not given
  bool go_back = true;  // half of them are like Linux's rxe: MigReq is 0, and all goes again from a gap on
  /// Copies are made by engines that take their time. Not where frames are damaged: nothing may write while
  /// one of them is looked at.
  bool slow_engines = false;
  /// A second thread turns all pollers while the applications call; then the seed does not say everything,
  /// and damaged frames are not watched.
  bool background_thread = false;
};

/// Two hosts, one wire, several connections with traffic both ways, and a virtual clock. One at a time.
class Simulation {
 public:
  struct Options {
    uint64_t seed = 1;
    NetworkConditions conditions;
    Machines machines;
    uint32_t connections = 2;
    uint32_t messages = 40;  // per flow; each connection has two
    uint8_t timeout = 8;     // about 1 ms
    Pause pause;
    qp::CongestionOptions congestion = {};
    bool errors_expected = false;
    uint32_t spoil = 0;       // like Flow::Options::spoil
    bool unanswered = false;  // each connection has one of UC or UD beside it
    bool keys = false;        // KeyTraffic instead of flows, `messages` rounds of it ...
    bool break_in = false;    // ... as KeyTraffic::Options::break_in
    bool atomics = false;  // AtomicTraffic instead: `messages` operations each way, on one word for each host
  };
  explicit Simulation(const Options& options);

  /// Until all flows are done. The first thing that is wrong, or an empty text.
  std::string run();

  [[nodiscard]] uint64_t counter(Counter counter) const;
  [[nodiscard]] uint64_t frames() const;
  [[nodiscard]] uint64_t damaged() const;
  [[nodiscard]] uint64_t damaged_watched() const;
  [[nodiscard]] uint64_t messages() const;
  [[nodiscard]] uint64_t unanswered_received() const;
  /// Sequence NAKs to peers that go back, behind each of which answers were judged.
  [[nodiscard]] uint64_t followed() const { return follow_judge_.naks(); }

 private:
  struct Turner {
    size_t side;
    size_t poller;
    Instant starved_until{};
  };

  [[nodiscard]] Host::Options host_options(size_t side);
  [[nodiscard]] std::unique_ptr<WireEnd> make_end(size_t side);
  void add_connection(uint32_t index);
  void add_unanswered(uint32_t index);
  [[nodiscard]] Psn first_psn();
  void add_atomics(Endpoint& user, Endpoint& owner);
  void add_flow(Endpoint& from, Endpoint& to, PathMtu mtu);

  std::string run_flows();
  void attend(const std::stop_token& stop);
  bool round();
  [[nodiscard]] bool starved(Turner& turner);
  void act();
  void let_pass(Duration duration);
  void advance(bool busy);
  [[nodiscard]] bool stuck();

  [[nodiscard]] bool paused() const;
  [[nodiscard]] bool paused(size_t side) const { return side == options_.pause.side && paused(); }
  [[nodiscard]] Instant next_event() const;
  [[nodiscard]] bool done() const;
  [[nodiscard]] std::string failure() const;
  std::string break_all();
  std::string check_end();

  Options options_;
  Random random_;
  FollowJudge follow_judge_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<Turner> turners_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::vector<std::unique_ptr<Flow>> flows_;
  std::vector<std::unique_ptr<KeyTraffic>> key_traffic_;
  std::vector<std::unique_ptr<UnansweredTraffic>> unanswered_;
  std::array<SharedCounter, 2> counters_;
  std::vector<std::unique_ptr<AtomicTraffic>> atomic_traffic_;
  Instant next_act_{};
  uint64_t progress_ = 0;              // messages completed ...
  Instant progress_at_{};              // ... when one last was
  std::atomic<uint64_t> attended_{0};  // rounds of the background thread
  std::jthread background_;            // ends before everything else goes
};

}  // namespace uroce::sim
