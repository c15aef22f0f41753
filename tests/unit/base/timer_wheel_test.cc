#include "base/timer_wheel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"

namespace uroce {
namespace {

constexpr Duration kTick = microseconds(10);

TEST(TimerWheel, FiresAfterTheDeadlineAndWithinOneTick) {
  TimerWheel wheel(kTick, 8);
  TimerNode node;
  wheel.arm(node, Instant{25'000});
  EXPECT_EQ(wheel.pop_expired(Instant{24'999}), nullptr);
  EXPECT_EQ(wheel.pop_expired(Instant{35'000}), &node);
  EXPECT_FALSE(node.armed());
  EXPECT_EQ(wheel.pop_expired(Instant{100'000}), nullptr);
}

TEST(TimerWheel, ADeadlineBeyondOneRevolutionWaitsItsTurn) {
  TimerWheel wheel(kTick, 8);
  TimerNode node;
  wheel.arm(node, Instant{0} + kTick * 100);
  for (int64_t t = 0; t < 100; ++t) EXPECT_EQ(wheel.pop_expired(Instant{0} + kTick * t), nullptr);
  EXPECT_EQ(wheel.pop_expired(Instant{0} + kTick * 100), &node);
}

TEST(TimerWheel, ReArmingMovesTheNode) {
  TimerWheel wheel(kTick, 8);
  TimerNode node;
  wheel.arm(node, Instant{10'000});
  wheel.arm(node, Instant{50'000});
  EXPECT_EQ(wheel.size(), 1u);
  EXPECT_EQ(wheel.pop_expired(Instant{40'000}), nullptr);
  EXPECT_EQ(wheel.pop_expired(Instant{50'000}), &node);
}

TEST(TimerWheel, ADeadlineInThePastFiresNext) {
  TimerWheel wheel(kTick, 8);
  TimerNode node;
  EXPECT_EQ(wheel.pop_expired(Instant{1'000'000}), nullptr);
  wheel.arm(node, Instant{5});
  EXPECT_EQ(wheel.pop_expired(Instant{1'000'000}), &node);
}

TEST(TimerWheel, EveryNodeFiresExactlyOnceUnderRandomArmingAndPauses) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Random random(seed);
    TimerWheel wheel(kTick, 16);
    std::vector<TimerNode> nodes(100);
    for (TimerNode& node : nodes) wheel.arm(node, Instant{static_cast<int64_t>(random.below(2'000'000))});
    size_t fired = 0;
    Instant now{0};
    while (now.ns < 2'100'000) {
      now = now + nanoseconds(static_cast<int64_t>(random.below(300'000)));
      while (TimerNode* node = wheel.pop_expired(now)) {
        EXPECT_LE(node->deadline(), now) << "seed " << seed;
        ++fired;
      }
      const Instant next = wheel.next_deadline();
      EXPECT_TRUE(next == kNever || next > now - kTick) << "seed " << seed;
    }
    EXPECT_EQ(fired, nodes.size()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace uroce
