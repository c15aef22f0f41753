#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/values/random.h"
#include "tests/sim/connecting_host.h"
#include "tests/sim/network_conditions.h"
#include "tests/sim/turns.h"

namespace uroce::sim {

/// Two hosts that connect to each other by the communication manager. One at a time.
class Connections {
 public:
  struct Options {
    uint64_t seed = 1;
    NetworkConditions conditions;
    engine::PollerMode mode = engine::PollerMode::kDedicated;
    uint16_t pollers = 1;
    uint32_t each = 20;  // that a host asks for
  };
  explicit Connections(const Options& options);

  /// Until nothing is left of any. The first thing that is wrong, or an empty text.
  std::string run();
  [[nodiscard]] ConnectingHost::Totals totals() const;

 private:
  [[nodiscard]] std::string failure() const;

  const Options options_;
  Random random_;
  Turns turns_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<ConnectingHost>> applications_;
};

}  // namespace uroce::sim
