#include "tests/sim/seeds.h"

namespace uroce::sim {
namespace {

/// The applications' calls and a background thread turn the same pollers: take-over in either direction,
/// doorbells and commands that meet a turn, frames handed over between pollers on different threads.
TEST(SimulationThreads, TakeOverFromEachOther) {
  run_seeds(6, [](uint64_t seed) {
    Random random(seed * 6'700'417);
    NetworkConditions conditions = any_conditions(random);
    conditions.loss /= 4;
    Machines machines = any_machines(random);
    machines.starvation = {};
    machines.background_thread = true;
    return Simulation::Options{.seed = seed, .conditions = conditions, .machines = machines, .messages = 20};
  });
}

/// Queue pairs that move from poller to poller, turned by either thread.
TEST(SimulationThreads, QueuePairsThatMove) {
  const Totals totals = run_seeds(4, [](uint64_t seed) {
    return Simulation::Options{
        .seed = seed,
        .machines = {.pollers = 3, .steering = Steering::kChanging, .background_thread = true},
        .connections = 4,
        .messages = 300};
  });
  EXPECT_GE(totals.of(Counter::kQpMoved), in_all_seeds(1));
}

/// The key is taken away by one thread's turn while the other thread's may be using it.
TEST(SimulationThreads, KeysThatAreTakenAway) {
  run_seeds(3, [](uint64_t seed) {
    Random random(seed * 141'650'939);
    NetworkConditions conditions = any_conditions(random);
    conditions.loss /= 4;
    Machines machines = any_machines(random);
    machines.pollers = 2;
    machines.starvation = {};
    machines.background_thread = true;
    return Simulation::Options{.seed = seed,
                               .conditions = conditions,
                               .machines = machines,
                               .connections = 2,
                               .messages = 6,
                               .keys = true};
  });
}

}  // namespace
}  // namespace uroce::sim
