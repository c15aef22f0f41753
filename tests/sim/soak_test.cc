#include "tests/sim/seeds.h"

namespace uroce::sim {
namespace {

/// What CI does not have the time for: more seeds, more queue pairs, longer flows.
TEST(Soak, ManyQueuePairsInBadWeather) {
  run_seeds(300, [](uint64_t seed) {
    Random random(seed * 32'452'843);
    const Weather weather = any_weather(random);
    return Simulation::Options{.seed = seed,
                               .weather = weather,
                               .machines = any_machines(random),
                               .connections = 8 + static_cast<uint32_t>(random.below(40)),
                               .messages = 200};
  });
}

TEST(Soak, LongFlows) {
  run_seeds(100, [](uint64_t seed) {
    Random random(seed * 49'979'687);
    const Weather weather = any_weather(random);
    return Simulation::Options{.seed = seed,
                               .weather = weather,
                               .machines = any_machines(random),
                               .connections = 1 + static_cast<uint32_t>(random.below(3)),
                               .messages = 5'000};
  });
}

TEST(Soak, ThreadsTakeOverFromEachOther) {
  run_seeds(200, [](uint64_t seed) {
    Random random(seed * 86'028'121);
    Weather weather = any_weather(random);
    weather.loss /= 4;
    Machines machines = any_machines(random);
    machines.starvation = {};
    machines.background_thread = true;
    return Simulation::Options{.seed = seed, .weather = weather, .machines = machines, .messages = 500};
  });
}

}  // namespace
}  // namespace uroce::sim
