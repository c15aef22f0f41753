#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/values/random.h"
#include "tests/sim/crowd_client.h"
#include "tests/sim/crowd_server.h"
#include "tests/sim/host.h"
#include "tests/sim/network.h"
#include "tests/sim/network_conditions.h"
#include "tests/sim/turns.h"

namespace uroce::sim {

/// Three hosts on a switch: two of clients, one that serves them all, on queue pairs of every service. One at
/// a time.
class Crowd {
 public:
  struct Options {
    uint64_t seed = 1;
    NetworkConditions conditions;
    engine::PollerMode mode = engine::PollerMode::kDedicated;
    uint16_t pollers = 1;
    Steering steering = Steering::kHash;
    bool ask_neighbours = false;
    uint32_t members = 12;
    uint32_t messages = 20;  // of each
  };
  explicit Crowd(const Options& options);

  /// Until all is done. The first thing that is wrong, or an empty text.
  std::string run();

  [[nodiscard]] uint64_t counter(Counter counter) const;
  [[nodiscard]] uint64_t messages() const;
  [[nodiscard]] uint64_t received() const { return server_->received(); }
  [[nodiscard]] uint64_t limits_reached() const { return server_->limits_reached(); }

 private:
  static constexpr size_t kHosts = 3;

  [[nodiscard]] Host::Options host_options(size_t index) const;
  void add_member(uint32_t index);
  [[nodiscard]] qp::Attributes attributes(Host& from, Host& to) const;
  void act();
  [[nodiscard]] bool done() const;
  [[nodiscard]] std::string failure() const;

  Options options_;
  Random random_;
  Turns turns_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::unique_ptr<CrowdServer> server_;
  std::vector<std::unique_ptr<CrowdClient>> clients_;
  engine::QpSlot* datagrams_ = nullptr;  // the server's for UD
  Instant next_act_{};
  uint64_t progress_ = 0;
  Instant progress_at_{};
};

}  // namespace uroce::sim
