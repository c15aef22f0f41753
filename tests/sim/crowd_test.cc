#include "tests/sim/crowd.h"

#include "tests/sim/seeds.h"

namespace uroce::sim {
namespace {

struct CrowdTotals {
  uint64_t messages = 0;
  uint64_t received = 0;
  uint64_t limits_reached = 0;
  uint64_t not_ready = 0;
  uint64_t handed_over = 0;
};

CrowdTotals run_crowds(uint64_t seeds, bool impaired) {
  const uint64_t only = number_from("UROCE_SIM_SEED", 0);
  const uint64_t first = only != 0 ? only : 1;
  const uint64_t count = only != 0 ? 1 : number_from("UROCE_SIM_SEEDS", seeds);
  CrowdTotals totals;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    Random random(seed * 15'487'469);
    std::string wrong;
    {
      Crowd crowd({.seed = seed,
                   .conditions = impaired ? any_conditions(random) : NetworkConditions{},
                   .mode = random.chance(1, 2) ? engine::PollerMode::kInline : engine::PollerMode::kDedicated,
                   .pollers = static_cast<uint16_t>(1 + random.below(2)),
                   .steering = static_cast<Steering>(random.below(4)),
                   .ask_neighbours = random.chance(1, 3),
                   .members = 6 + static_cast<uint32_t>(random.below(24)),
                   .messages = 15});
      wrong = crowd.run();
      totals.messages += crowd.messages();
      totals.received += crowd.received();
      totals.limits_reached += crowd.limits_reached();
      totals.not_ready += crowd.counter(Counter::kRnrNakSent);
      totals.handed_over += crowd.counter(Counter::kRxHandedOver);
    }
    if (wrong.empty() && Frame::alive != 0) wrong = "frames were not given back";
    EXPECT_EQ(wrong, "") << "UROCE_SIM_SEED=" << seed << " at " << VirtualClock::now().ns << " ns";
    if (!wrong.empty()) break;
  }
  std::cout << totals.messages << " messages, " << totals.received << " received, " << totals.limits_reached
            << " limits reached, " << totals.not_ready << " not ready, " << totals.handed_over
            << " handed over\n";
  return totals;
}

/// Many queue pairs of every service, from two hosts, share their receives and their completion queue.
TEST(Crowds, WithoutImpairment) {
  const CrowdTotals totals = run_crowds(25, false);
  EXPECT_GE(totals.limits_reached, in_all_seeds(1));
  EXPECT_GE(totals.not_ready, in_all_seeds(1));
  EXPECT_GT(totals.received, totals.messages / 2);
}

TEST(Crowds, WithImpairment) {
  const CrowdTotals totals = run_crowds(40, true);
  EXPECT_GE(totals.limits_reached, in_all_seeds(1));
  EXPECT_GT(totals.received, totals.messages / 3);
}

}  // namespace
}  // namespace uroce::sim
