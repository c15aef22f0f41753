// Queue pairs that move to the pollers that their packets come to. What Simulation holds of every world, the
// order of completions and all bytes, holds while they do.
#include "tests/sim/seeds.h"

namespace uroce::sim {
namespace {

/// Flows long enough to be followed; they hash to any queue, whichever poller their queue pairs are made for.
Simulation::Options followed(uint64_t seed, Machines machines) {
  machines.mode = seed % 2 == 0 ? engine::PollerMode::kInline : engine::PollerMode::kDedicated;
  return {.seed = seed, .machines = machines, .connections = 4, .messages = 300};
}

TEST(Moves, QueuePairsComeToWhereTheirPacketsDo) {
  const Totals followed_packets = run_seeds(10, [](uint64_t seed) { return followed(seed, {.pollers = 3}); });
  EXPECT_GE(followed_packets.of(Counter::kQpMoved), in_all_seeds(1));
  EXPECT_EQ(followed_packets.of(Counter::kAckTimeout), 0u);
  EXPECT_EQ(followed_packets.of(Counter::kImpliedNak), 0u) << "packets stay in order";

  const Totals handed_over = run_seeds(10, [](uint64_t seed) {
    Simulation::Options options = followed(seed, {.pollers = 3});
    options.machines.follow_packets = false;
    return options;
  });
  EXPECT_EQ(handed_over.of(Counter::kQpMoved), 0u);
  // What receivers that are not ready cause.
  EXPECT_LE(followed_packets.of(Counter::kSequenceNakSent),
            2 * handed_over.of(Counter::kSequenceNakSent) + 10);
  EXPECT_LT(followed_packets.of(Counter::kRxHandedOver), handed_over.of(Counter::kRxHandedOver) / 2);
}

/// The table of RSS changes every two milliseconds.
TEST(Moves, SteeringThatChangesItsMind) {
  const Totals totals = run_seeds(20, [](uint64_t seed) {
    Random random(seed * 2'097'593);
    return followed(seed, {.pollers = static_cast<uint16_t>(2 + random.below(3)),
                           .steering = Steering::kChanging,
                           .own_addresses = random.chance(1, 3)});
  });
  EXPECT_GE(totals.of(Counter::kQpMoved), in_all_seeds(21));
  EXPECT_EQ(totals.of(Counter::kAckTimeout), 0u);
}

/// All packets come to one queue; the queue pair moves there and stays.
TEST(Moves, NoneForPacketsThatComeToAllPollers) {
  const Totals totals = run_seeds(
      10, [](uint64_t seed) { return followed(seed, {.pollers = 2, .steering = Steering::kRandom}); });
  EXPECT_EQ(totals.of(Counter::kQpMoved), 0u);
  EXPECT_GE(totals.of(Counter::kRxHandedOver), in_all_seeds(1));
}

/// Clocks of pollers differ, packets are lost, and connections end meanwhile.
TEST(Moves, WithImpairment) {
  const Totals totals = run_seeds(40, [](uint64_t seed) {
    Random random(seed * 15'485'863);
    Simulation::Options options = followed(seed, {.pollers = static_cast<uint16_t>(2 + random.below(3)),
                                                  .steering = Steering::kChanging,
                                                  .starvation = microseconds(500),
                                                  .own_addresses = random.chance(1, 3),
                                                  .slow_engines = false});
    options.conditions = any_conditions(random);
    options.conditions.loss /= 4;
    options.conditions.corruption = 0;
    options.conditions.truncation = 0;
    options.messages = 200;
    options.unanswered = random.chance(1, 2);
    return options;
  });
  EXPECT_GE(totals.of(Counter::kQpMoved), in_all_seeds(11));
}

TEST(Moves, ConnectionsThatAreCut) {
  const Totals totals = run_seeds(20, [](uint64_t seed) {
    Random random(seed * 32'452'843);
    Simulation::Options options =
        followed(seed, {.pollers = 3, .steering = Steering::kChanging, .starvation = microseconds(300)});
    options.conditions.cut = Instant{static_cast<int64_t>(2'000'000 + random.below(20'000'000))};
    options.messages = 10'000;
    options.timeout = 5;
    options.errors_expected = true;
    return options;
  });
  EXPECT_GE(totals.of(Counter::kQpMoved), in_all_seeds(11));
}

}  // namespace
}  // namespace uroce::sim
