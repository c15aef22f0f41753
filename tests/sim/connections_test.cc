#include "tests/sim/connections.h"

#include "tests/sim/seeds.h"

namespace uroce::sim {
namespace {

ConnectingHost::Totals run_connections(uint64_t seeds, bool impaired) {
  const uint64_t only = number_from("UROCE_SIM_SEED", 0);
  const uint64_t first = only != 0 ? only : 1;
  const uint64_t count = only != 0 ? 1 : number_from("UROCE_SIM_SEEDS", seeds);
  ConnectingHost::Totals totals;
  uint64_t asked = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    Random random(seed * 32'452'843);
    const auto each = static_cast<uint32_t>(1 + random.below(40));
    NetworkConditions conditions;
    if (impaired) {
      conditions = any_conditions(random);
      conditions.loss = random.below(20'000);  // up to every fifth frame
    }
    std::string wrong;
    {
      Connections connections(
          {.seed = seed,
           .conditions = conditions,
           .mode = random.chance(1, 2) ? engine::PollerMode::kInline : engine::PollerMode::kDedicated,
           .pollers = static_cast<uint16_t>(1 + random.below(2)),
           .each = each});
      wrong = connections.run();
      asked += 2 * each;
      totals += connections.totals();
    }
    if (wrong.empty() && Frame::alive != 0) wrong = "frames were not given back";
    EXPECT_EQ(wrong, "") << "UROCE_SIM_SEED=" << seed << " at " << VirtualClock::now().ns << " ns";
    if (!wrong.empty()) break;
  }
  std::cout << asked << " connections, " << totals.answered << " answered, " << totals.refused
            << " refusals, " << totals.refusals_heard << " heard, " << totals.asked_twice
            << " asked for twice, " << totals.taken_back << " taken back, " << totals.broken << " broken, "
            << totals.before_rtu << " with data before the RTU\n";
  EXPECT_EQ(totals.answered + totals.refusals_heard + totals.broken, asked);
  return totals;
}

/// Both hosts connect to the other all at once, over whole devices: asked for, refused or answered, data both
/// ways, disconnected by either, and nothing left.
TEST(Connections, WithoutImpairment) {
  const ConnectingHost::Totals totals = run_connections(20, false);
  EXPECT_EQ(totals.broken, 0u);
}

TEST(Connections, WithImpairment) {
  const ConnectingHost::Totals totals = run_connections(60, true);
  EXPECT_GE(totals.before_rtu, in_all_seeds(1));
  EXPECT_GT(totals.answered, 50 * totals.broken);
}

}  // namespace
}  // namespace uroce::sim
