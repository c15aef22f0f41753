#include "tests/sim/network_conditions.h"

namespace uroce::sim {

Path path_of(const NetworkConditions& conditions) {
  Path path;
  path.push_back(std::make_unique<Outage>(conditions.cut, kNever));
  path.push_back(std::make_unique<Drop>(conditions.loss));
  path.push_back(std::make_unique<Corrupt>(conditions.corruption));
  path.push_back(std::make_unique<Truncate>(conditions.truncation));
  path.push_back(std::make_unique<Delay>(conditions.latency, conditions.reordering, conditions.jitter));
  path.push_back(std::make_unique<Duplicate>(conditions.duplication, conditions.jitter));
  return path;
}

}  // namespace uroce::sim
