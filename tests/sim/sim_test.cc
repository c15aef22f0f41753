#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <string>

#include "tests/sim/simulation.h"
#include "tests/sim/virtual_clock.h"

// Each test runs a number of seeds. UROCE_SIM_SEED=N runs just that one, UROCE_SIM_SEEDS=N that many.
namespace uroce::sim {
namespace {

constexpr std::array kShown = {
    Counter::kRequestsExecuted, Counter::kRetransmittedPackets, Counter::kAckTimeout,
    Counter::kSequenceNakSent,  Counter::kImpliedNak,           Counter::kRnrNakSent,
    Counter::kDuplicateRequest, Counter::kDropSequence,         Counter::kDropIcrc,
    Counter::kDropBadAck,       Counter::kDropResources,        Counter::kRxHandedOver,
    Counter::kRxHandOverFull};

struct Totals {
  uint64_t messages = 0;
  uint64_t frames = 0;
  uint64_t damaged = 0;
  uint64_t damaged_watched = 0;
  std::array<uint64_t, kShown.size()> counters{};

  void add(const Simulation& simulation) {
    messages += simulation.messages();
    frames += simulation.frames();
    damaged += simulation.damaged();
    damaged_watched += simulation.damaged_watched();
    for (size_t i = 0; i < kShown.size(); ++i) counters[i] += simulation.counter(kShown[i]);
  }
  [[nodiscard]] uint64_t of(Counter counter) const {
    return counters[static_cast<size_t>(std::ranges::find(kShown, counter) - kShown.begin())];
  }
  void print() const {
    std::cout << messages << " messages, " << frames << " frames, " << damaged << " damaged, "
              << damaged_watched << " of them watched";
    for (size_t i = 0; i < kShown.size(); ++i)
      std::cout << ", " << counter_label(kShown[i]) << ' ' << counters[i];
    std::cout << '\n';
  }
};

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

/// Runs `make(seed)` for each seed and stops at the first that fails.
template <typename Make>
Totals run_seeds(uint64_t seeds, const Make& make) {
  const uint64_t only = number_from("UROCE_SIM_SEED", 0);
  const uint64_t first = only != 0 ? only : 1;
  const uint64_t count = only != 0 ? 1 : number_from("UROCE_SIM_SEEDS", seeds);
  Totals totals;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    Simulation simulation(make(seed));
    const std::string wrong = simulation.run();
    totals.add(simulation);
    EXPECT_EQ(wrong, "") << "UROCE_SIM_SEED=" << seed << " at " << VirtualClock::now().ns << " ns";
    if (!wrong.empty()) break;
  }
  totals.print();
  return totals;
}

/// All sorts of machines; a starved poller costs less than its peer's patience.
Machines any_machines(Random& random) {
  return {.mode = random.chance(1, 2) ? engine::PollerMode::kInline : engine::PollerMode::kDedicated,
          .pollers = static_cast<uint16_t>(1 + random.below(2)),
          .steering = static_cast<Steering>(random.below(3)),
          .starvation = random.chance(1, 2) ? microseconds(500) : Duration{},
          .own_addresses = random.chance(1, 3),
          .ask_neighbours = random.chance(1, 2)};
}

TEST(Simulation, FairWeather) {
  run_seeds(20, [](uint64_t seed) {
    Random random(seed * 31);
    return Simulation::Options{.seed = seed, .machines = any_machines(random)};
  });
}

/// With RSS a flow stays on one queue: then handing over keeps its order. (Sequence NAKs do occur: for the
/// tail of what an RNR NAK has stopped.)
TEST(Simulation, HandOffKeepsTheOrderOfAFlow) {
  const Totals totals = run_seeds(20, [](uint64_t seed) {
    return Simulation::Options{.seed = seed, .machines = {.pollers = 2}, .connections = 6};
  });
  EXPECT_GT(totals.of(Counter::kRxHandedOver), 0u);
  EXPECT_EQ(totals.of(Counter::kImpliedNak), 0u);
  EXPECT_EQ(totals.of(Counter::kAckTimeout), 0u);
}

TEST(Simulation, LossDuplicationReorderingAndCorruption) {
  run_seeds(100, [](uint64_t seed) {
    Random random(seed * 7919);
    Weather weather;
    weather.loss = random.below(3'000);
    weather.duplication = random.below(3'000);
    weather.reordering = random.below(5'000);
    weather.corruption = random.below(2'000);
    weather.truncation = random.below(500);
    weather.latency = microseconds(1 + static_cast<int64_t>(random.below(20)));
    weather.jitter = microseconds(1 + static_cast<int64_t>(random.below(100)));
    return Simulation::Options{.seed = seed,
                               .weather = weather,
                               .machines = any_machines(random),
                               .connections = 1 + static_cast<uint32_t>(random.below(4))};
  });
}

/// The wire is cut: what is outstanding ends with one error each, and what was complete stays as it was.
TEST(Simulation, ConnectionsThatAreCut) {
  run_seeds(50, [](uint64_t seed) {
    Random random(seed * 104'729);
    Weather weather;
    weather.loss = random.below(1'000);
    weather.cut = Instant{static_cast<int64_t>(random.below(1'000'000))};
    Machines machines = any_machines(random);
    machines.ask_neighbours = false;  // nobody would answer any more
    return Simulation::Options{.seed = seed,
                               .weather = weather,
                               .machines = machines,
                               .messages = 1'000,
                               .timeout = 5,
                               .errors_expected = true};
  });
}

/// Some requests have a wrong key: those fail at both ends, everything behind them is flushed.
TEST(Simulation, RequestsThatAreRefused) {
  run_seeds(50, [](uint64_t seed) {
    Random random(seed * 1'299'709);
    Weather weather;
    weather.loss = random.below(2'000);
    return Simulation::Options{.seed = seed,
                               .weather = weather,
                               .machines = any_machines(random),
                               .messages = 1'000,
                               .timeout = 5,
                               .errors_expected = true,
                               .spoil = 1 + static_cast<uint32_t>(random.below(50))};
  });
}

/// A process that is stopped for ten seconds goes on without an error when its peer is patient.
TEST(Simulation, AHostThatStopsForAWhile) {
  run_seeds(20, [](uint64_t seed) {
    Random random(seed * 15'485'863);
    Weather weather;
    weather.loss = random.below(500);
    const Instant begin{static_cast<int64_t>(random.below(2'000'000))};
    return Simulation::Options{.seed = seed,
                               .weather = weather,
                               .machines = any_machines(random),
                               .timeout = 19,
                               .pause = {random.below(2), begin, begin + seconds(10)}};
  });
}

}  // namespace
}  // namespace uroce::sim
