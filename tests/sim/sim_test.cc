#include "tests/sim/seeds.h"

namespace uroce::sim {
namespace {

TEST(Simulation, WithoutImpairment) {
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
  EXPECT_GE(totals.of(Counter::kRxHandedOver), in_all_seeds(1));
  EXPECT_EQ(totals.of(Counter::kImpliedNak), 0u);
  EXPECT_EQ(totals.of(Counter::kAckTimeout), 0u);
}

/// A poller that is not turned for long while its sibling goes on handing frames over to it.
TEST(Simulation, HandOffRingsThatFill) {
  const Totals totals = run_seeds(3, [](uint64_t seed) {
    NetworkConditions conditions;
    conditions.duplication = kPer;
    return Simulation::Options{
        .seed = seed,
        .conditions = conditions,
        .machines = {.pollers = 2, .steering = Steering::kRoundRobin, .starvation = milliseconds(4)},
        .connections = 16,
        .messages = 40,
        .timeout = 11};
  });
  EXPECT_GE(totals.of(Counter::kRxHandOverFull), in_all_seeds(1));
}

TEST(Simulation, LossDuplicationReorderingAndCorruption) {
  const Totals totals = run_seeds(100, [](uint64_t seed) {
    Random random(seed * 7919);
    const NetworkConditions conditions = any_conditions(random);
    return Simulation::Options{.seed = seed,
                               .conditions = conditions,
                               .machines = any_machines(random),
                               .connections = 1 + static_cast<uint32_t>(random.below(4))};
  });
  EXPECT_GE(totals.followed, in_all_seeds(1))
      << "of NAKs to peers that go back, behind which answers are judged";
}

/// UC and UD beside RC. Of what is not answered some arrives, and all that arrives is whole.
TEST(Simulation, MessagesWithoutAnswer) {
  const Totals totals = run_seeds(40, [](uint64_t seed) {
    Random random(seed * 49'979'687);
    return Simulation::Options{
        .seed = seed,
        .conditions = random.chance(1, 3) ? NetworkConditions{} : any_conditions(random),
        .machines = any_machines(random),
        .connections = 1 + static_cast<uint32_t>(random.below(4)),
        .messages = 15,
        .unanswered = true};
  });
  EXPECT_GE(totals.unanswered, in_all_seeds(1));
}

/// The wire is cut: what is outstanding ends with one error each, and what was complete stays as it was.
TEST(Simulation, ConnectionsThatAreCut) {
  run_seeds(50, [](uint64_t seed) {
    Random random(seed * 104'729);
    NetworkConditions conditions;
    conditions.loss = random.below(1'000);
    conditions.cut = Instant{static_cast<int64_t>(random.below(1'000'000))};
    Machines machines = any_machines(random);
    machines.ask_neighbours = false;  // no host would answer any more
    return Simulation::Options{.seed = seed,
                               .conditions = conditions,
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
    NetworkConditions conditions;
    conditions.loss = random.below(2'000);
    return Simulation::Options{.seed = seed,
                               .conditions = conditions,
                               .machines = any_machines(random),
                               .messages = 1'000,
                               .timeout = 5,
                               .errors_expected = true,
                               .spoil = 1 + static_cast<uint32_t>(random.below(50))};
  });
}

/// Connections that end by a wrong key, and beside them UC and UD on the same wire, which go on.
TEST(Simulation, RequestsThatAreRefusedBesideMessagesWithoutAnswer) {
  const Totals totals = run_seeds(30, [](uint64_t seed) {
    Random random(seed * 141'650'939);
    NetworkConditions conditions;
    conditions.loss = random.below(2'000);
    return Simulation::Options{.seed = seed,
                               .conditions = conditions,
                               .machines = any_machines(random),
                               .connections = 1 + static_cast<uint32_t>(random.below(3)),
                               .messages = 100,
                               .timeout = 5,
                               .errors_expected = true,
                               .spoil = 1 + static_cast<uint32_t>(random.below(50)),
                               .unanswered = true};
  });
  EXPECT_GE(totals.unanswered, in_all_seeds(1));
}

/// Regions are bound and their keys taken away while a bad network repeats what was sent under them.
TEST(Simulation, KeysThatAreTakenAway) {
  run_seeds(30, [](uint64_t seed) {
    Random random(seed * 86'028'121);
    NetworkConditions conditions = any_conditions(random);
    conditions.duplication *= 3;
    return Simulation::Options{.seed = seed,
                               .conditions = conditions,
                               .machines = any_machines(random),
                               .connections = 1 + static_cast<uint32_t>(random.below(4)),
                               .messages = 15,
                               .keys = true};
  });
}

/// The same, and in the end in the middle of what the other is doing.
TEST(Simulation, KeysThatAreTakenAwayInTheMiddleOfAMessage) {
  const Totals totals = run_seeds(30, [](uint64_t seed) {
    Random random(seed * 122'949'823);
    NetworkConditions conditions = any_conditions(random);
    return Simulation::Options{.seed = seed,
                               .conditions = conditions,
                               .machines = any_machines(random),
                               .connections = 4,
                               .messages = 1 + static_cast<uint32_t>(random.below(4)),
                               .timeout = 5,
                               .keys = true,
                               .break_in = true};
  });
  EXPECT_GE(totals.of(Counter::kAccessNakSent), in_all_seeds(1));
}

/// Bursts that are held up until their copies have been made, and what comes meanwhile.
TEST(Simulation, CopyEnginesThatTakeTheirTime) {
  const Totals totals = run_seeds(30, [](uint64_t seed) {
    Random random(seed * 179'424'673);
    NetworkConditions conditions = any_conditions(random);
    conditions.corruption = conditions.truncation = 0;
    Machines machines = any_machines(random);
    machines.slow_engines = true;
    return Simulation::Options{.seed = seed,
                               .conditions = conditions,
                               .machines = machines,
                               .connections = 1 + static_cast<uint32_t>(random.below(4))};
  });
  EXPECT_GE(totals.of(Counter::kEngineCopies), in_all_seeds(1));
  EXPECT_EQ(totals.of(Counter::kEngineFailed), 0u);
}

/// A word that both ends of several connections count up while a bad network repeats what they ask for: in
/// the end it is exactly the number of operations.
TEST(Simulation, AtomicsAreExecutedOnce) {
  const Totals totals = run_seeds(40, [](uint64_t seed) {
    Random random(seed * 179'424'673);
    NetworkConditions conditions = any_conditions(random);
    conditions.duplication *= 3;
    return Simulation::Options{.seed = seed,
                               .conditions = conditions,
                               .machines = any_machines(random),
                               .connections = 1 + static_cast<uint32_t>(random.below(4)),
                               .messages = 60,
                               .atomics = true};
  });
  EXPECT_GE(totals.of(Counter::kDuplicateRequest), in_all_seeds(1));
}

/// A process that is stopped for ten seconds goes on without an error when its peer is patient.
TEST(Simulation, AHostThatStopsForAWhile) {
  run_seeds(20, [](uint64_t seed) {
    Random random(seed * 15'485'863);
    NetworkConditions conditions;
    conditions.loss = random.below(500);
    const Instant begin{static_cast<int64_t>(random.below(2'000'000))};
    Machines machines = any_machines(random);
    machines.go_back = false;  // each loss of a tail would cost such a long ACK timeout
    return Simulation::Options{.seed = seed,
                               .conditions = conditions,
                               .machines = machines,
                               .timeout = 19,
                               .pause = {random.below(2), begin, begin + seconds(10)}};
  });
}

/// A process that is not run for longer than all its peer's retries would take at equal distances (eight
/// times 67 ms, as most programs have it), with receives that are missing on either side.
TEST(Simulation, AHostThatIsNotRunForAWhile) {
  const Totals totals = run_seeds(20, [](uint64_t seed) {
    Random random(seed * 32'452'843);
    const Instant begin{static_cast<int64_t>(random.below(1'000'000))};
    const Duration length = milliseconds(600 + static_cast<int64_t>(random.below(900)));
    return Simulation::Options{.seed = seed,
                               .machines = any_machines(random),
                               .timeout = 14,
                               .pause = {random.below(2), begin, begin + length}};
  });
  EXPECT_GE(totals.of(Counter::kAckTimeout), in_all_seeds(1));
  EXPECT_GE(totals.of(Counter::kRnrNakSent), in_all_seeds(1));
}

}  // namespace
}  // namespace uroce::sim
