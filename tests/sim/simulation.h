#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "tests/sim/endpoint.h"
#include "tests/sim/flow.h"
#include "tests/sim/host.h"
#include "tests/sim/network.h"

namespace uroce::sim {

/// How bad the network is, per direction.
struct Weather {
  uint64_t loss = 0;  // like the others: per kPer frames
  uint64_t duplication = 0;
  uint64_t reordering = 0;
  uint64_t corruption = 0;
  uint64_t truncation = 0;
  Duration latency = microseconds(2);
  Duration jitter = microseconds(5);  // of duplicates and of what is overtaken
  Instant cut = kNever;               // from here on nothing arrives
};

/// A host that is not turned for a while, as when its process is stopped.
struct Pause {
  size_t side = 0;
  Instant begin = kNever;
  Instant end = kNever;
};

/// Two hosts, one wire, several connections with traffic both ways, and a virtual clock.
class Simulation {
 public:
  struct Options {
    uint64_t seed = 1;
    Weather weather;
    uint32_t connections = 2;
    uint32_t messages = 40;  // per flow; each connection has two
    uint8_t timeout = 8;     // about 1 ms
    Pause pause;
    bool errors_expected = false;
    uint32_t spoil = 0;  // like Flow::Options::spoil
  };
  explicit Simulation(const Options& options);

  /// Until all flows are done. The first thing that is wrong, or an empty text.
  std::string run();

  [[nodiscard]] uint64_t counter(Counter counter) const;
  [[nodiscard]] uint64_t frames() const { return ends_[0]->sent() + ends_[1]->sent(); }
  [[nodiscard]] uint64_t damaged() const {
    return ends_[0]->damaged_received() + ends_[1]->damaged_received();
  }
  [[nodiscard]] uint64_t messages() const;
  [[nodiscard]] Instant now() const { return now_; }

 private:
  void add_connection(uint32_t index);
  std::string turn(size_t side, bool& busy);
  [[nodiscard]] bool paused() const { return now_ >= options_.pause.begin && now_ < options_.pause.end; }
  [[nodiscard]] bool paused(size_t side) const { return side == options_.pause.side && paused(); }
  [[nodiscard]] Instant next_event() const;
  [[nodiscard]] bool done() const;
  std::string check_end() const;

  Options options_;
  Random random_;
  Instant now_{};
  std::vector<std::unique_ptr<WireEnd>> ends_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;  // a, b, a, b ...
  std::vector<std::unique_ptr<Flow>> flows_;
  Instant next_act_{};
};

}  // namespace uroce::sim
