#include "tests/sim/weather.h"

namespace uroce::sim {

Path path_of(const Weather& weather) {
  Path path;
  path.push_back(std::make_unique<Outage>(weather.cut, kNever));
  path.push_back(std::make_unique<Drop>(weather.loss));
  path.push_back(std::make_unique<Corrupt>(weather.corruption));
  path.push_back(std::make_unique<Truncate>(weather.truncation));
  path.push_back(std::make_unique<Delay>(weather.latency, weather.reordering, weather.jitter));
  path.push_back(std::make_unique<Duplicate>(weather.duplication, weather.jitter));
  return path;
}

}  // namespace uroce::sim
