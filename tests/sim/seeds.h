#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <string>

#include "base/counters/counter_texts.h"
#include "base/counters/counters.h"
#include "tests/sim/frame.h"
#include "tests/sim/simulation.h"
#include "tests/sim/virtual_clock.h"

// Each test runs a number of seeds. UROCE_SIM_SEED=N runs just that one, UROCE_SIM_SEEDS=N that many.
namespace uroce::sim {

inline constexpr std::array kShown = {
    Counter::kRequestsExecuted, Counter::kRetransmittedPackets, Counter::kAckTimeout,
    Counter::kSequenceNakSent,  Counter::kImpliedNak,           Counter::kRnrNakSent,
    Counter::kDuplicateRequest, Counter::kDropSequence,         Counter::kDropIcrc,
    Counter::kDropBadAck,       Counter::kDropResources,        Counter::kRxHandedOver,
    Counter::kRxHandOverFull,   Counter::kAccessNakSent,        Counter::kDropStalled,
    Counter::kEngineCopies,     Counter::kEngineFailed,         Counter::kQpMoved,
    Counter::kRxEarly};

/// What the runs of one test came to.
struct Totals {
  uint64_t messages = 0;
  uint64_t unanswered = 0;  // that arrived, of those that are not answered
  uint64_t followed = 0;    // Simulation::followed()
  uint64_t frames = 0;
  uint64_t damaged = 0;
  uint64_t damaged_watched = 0;
  std::array<uint64_t, kShown.size()> counters{};

  void add(const Simulation& simulation) {
    messages += simulation.messages();
    unanswered += simulation.unanswered_received();
    followed += simulation.followed();
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
      std::cout << ", " << texts_of(kShown[i]).label << ' ' << counters[i];
    std::cout << '\n';
  }
};

inline uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

/// A least that the seeds of a test come to together; a seed that is repeated alone has none, and is held to
/// what holds of every world.
inline uint64_t in_all_seeds(uint64_t least) { return number_from("UROCE_SIM_SEED", 0) != 0 ? 0 : least; }

/// Runs the simulation that `make(seed)` describes for each seed and stops at the first that fails.
template <typename Make>
Totals run_seeds(uint64_t seeds, const Make& make) {
  const uint64_t only = number_from("UROCE_SIM_SEED", 0);
  const uint64_t first = only != 0 ? only : 1;
  const uint64_t count = only != 0 ? 1 : number_from("UROCE_SIM_SEEDS", seeds);
  Totals totals;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    std::string wrong;
    {
      Simulation simulation(make(seed));
      wrong = simulation.run();
      totals.add(simulation);
    }
    if (wrong.empty() && Frame::alive != 0) wrong = "frames were not given back";
    EXPECT_EQ(wrong, "") << "UROCE_SIM_SEED=" << seed << " at " << VirtualClock::now().ns << " ns";
    if (!wrong.empty()) break;
  }
  totals.print();
  return totals;
}

/// All sorts of machines; a starved poller costs less than its peer's patience.
inline Machines any_machines(Random& random) {
  return {.mode = random.chance(1, 2) ? engine::PollerMode::kInline : engine::PollerMode::kDedicated,
          .pollers = static_cast<uint16_t>(1 + random.below(2)),
          .steering = static_cast<Steering>(random.below(4)),
          .starvation = random.chance(1, 2) ? microseconds(500) : Duration{},
          .own_addresses = random.chance(1, 3),
          .ask_neighbours = random.chance(1, 2)};
}

inline NetworkConditions any_conditions(Random& random) {
  NetworkConditions conditions;
  conditions.loss = random.below(3'000);
  conditions.duplication = random.below(3'000);
  conditions.reordering = random.below(5'000);
  conditions.corruption = random.below(2'000);
  conditions.truncation = random.below(500);
  conditions.latency = microseconds(1 + static_cast<int64_t>(random.below(20)));
  conditions.jitter = microseconds(1 + static_cast<int64_t>(random.below(100)));
  return conditions;
}

}  // namespace uroce::sim
