#include "base/tables/timer_wheel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/values/random.h"

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

TEST(TimerWheel, TellsTheNextDeadlineOfThisRevolution) {
  TimerWheel wheel(kTick, 128);
  EXPECT_EQ(wheel.next_deadline(), kNever);
  std::vector<TimerNode> nodes(3);
  wheel.arm(nodes[0], Instant{900'000});
  EXPECT_EQ(wheel.next_deadline(), Instant{900'000});
  wheel.arm(nodes[1], Instant{20'500});
  EXPECT_EQ(wheel.next_deadline(), Instant{20'500});
  wheel.arm(nodes[2], Instant{20'400});
  EXPECT_EQ(wheel.next_deadline(), Instant{20'400}) << "two in one slot";
  wheel.disarm(nodes[1]);
  wheel.disarm(nodes[2]);
  EXPECT_EQ(wheel.next_deadline(), Instant{900'000});
  wheel.disarm(nodes[0]);
  EXPECT_EQ(wheel.next_deadline(), kNever);
}

TEST(TimerWheel, ADeadlineOfALaterRevolutionIsNotToldLate) {
  TimerWheel wheel(kTick, 128);
  TimerNode node;
  const Instant deadline = Instant{0} + kTick * 1000;
  wheel.arm(node, deadline);
  // A thread that sleeps until the next deadline looks again, and in the end in time.
  Instant now = wheel.next_deadline();
  int looks = 1;
  for (; now < deadline; ++looks) {
    ASSERT_EQ(wheel.pop_expired(now), nullptr);
    const Instant next = wheel.next_deadline();
    ASSERT_GT(next, now);
    ASSERT_LE(next, deadline);
    now = next;
  }
  EXPECT_EQ(wheel.pop_expired(now + kTick), &node);
  EXPECT_LE(looks, 1000 / 127 + 2);
}

TEST(TimerWheel, TheNextDeadlineIsNotLateWhateverIsArmed) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Random random(seed);
    for (const size_t slots : {8u, 64u, 128u, 1024u}) {
      TimerWheel wheel(kTick, slots);
      std::vector<TimerNode> nodes(20);
      Instant now{static_cast<int64_t>(random.below(1'000'000))};
      for (int step = 0; step < 200; ++step) {
        TimerNode& node = nodes[random.below(nodes.size())];
        if (random.below(4) == 0) {
          wheel.disarm(node);
        } else {
          wheel.arm(node, now + nanoseconds(static_cast<int64_t>(random.below(3 * slots * 10'000))));
        }
        now = now + nanoseconds(static_cast<int64_t>(random.below(20'000)));
        while (wheel.pop_expired(now) != nullptr) continue;
        Instant earliest = kNever;
        for (const TimerNode& each : nodes) {
          if (each.armed()) earliest = std::min(earliest, each.deadline());
        }
        const Instant told = wheel.next_deadline();
        // One that is about to move down fires with its tick.
        if (told == earliest || (told > earliest && told < earliest + kTick)) continue;
        ASSERT_LT(told, earliest) << "seed " << seed;
        // Where a slot of a higher level begins.
        ASSERT_EQ(told.ns % (kTick * static_cast<int64_t>(slots)).ns, 0)
            << "seed " << seed << " slots " << slots;
        ASSERT_GT(told, now) << "seed " << seed << " slots " << slots;
      }
    }
  }
}

/// Beside a list that is searched from end to end. Deadlines of all levels and beyond, and pauses as long.
TEST(TimerWheel, FiresWhatAListWould) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Random random(seed);
    for (const uint64_t slots : {2u, 8u, 64u, 256u}) {
      TimerWheel wheel(kTick, slots);
      std::vector<TimerNode> nodes(200);
      Instant now{static_cast<int64_t>(random.below(1'000'000))};
      // Mostly within one level or another, and at times beyond all of them.
      const uint64_t all = 4 * slots * slots * slots * slots * static_cast<uint64_t>(kTick.ns);
      const auto far = [&] {
        return nanoseconds(static_cast<int64_t>(random.below(all) >> random.below(40)));
      };
      for (int step = 0; step < 500; ++step) {
        for (uint64_t armed = random.below(8); armed > 0; --armed) {
          TimerNode& node = nodes[random.below(nodes.size())];
          random.below(5) == 0 ? wheel.disarm(node) : wheel.arm(node, now + far());
        }
        now = now + far();
        while (const TimerNode* node = wheel.pop_expired(now))
          ASSERT_LE(node->deadline(), now) << "seed " << seed;
        // A call that moves down as many as it may finds none.
        for (size_t left = nodes.size(); left > 0; --left) {
          while (wheel.pop_expired(now) != nullptr) continue;
        }
        for (const TimerNode& node : nodes) {
          ASSERT_FALSE(node.armed() && node.deadline() + kTick <= now)
              << "seed " << seed << " slots " << slots;
        }
      }
    }
  }
}

TEST(TimerWheel, ManyNodesMoveDownInSeveralCalls) {
  constexpr size_t kNodes = 1000;
  TimerWheel wheel(kTick, 8);
  std::vector<TimerNode> nodes(kNodes);
  const Instant due = Instant{0} + kTick * 64;
  for (TimerNode& node : nodes) wheel.arm(node, due);
  size_t fired = 0;
  size_t calls = 0;
  for (; fired < kNodes; ++calls) {
    ASSERT_LT(calls, 2 * kNodes);
    // In the middle of it: what is armed meanwhile, as far away again, does not go round in circles.
    if (calls == 1) wheel.arm(nodes[0], due + kTick * 8 * 8 * 8);
    if (calls == 2) wheel.disarm(nodes[1]);
    const TimerNode* const node = wheel.pop_expired(due);
    fired += node != nullptr ? 1 : 0;
    if (fired == kNodes - 2) break;
    ASSERT_LE(wheel.next_deadline(), due);
  }
  EXPECT_GT(calls, kNodes);  // some found none
  EXPECT_EQ(wheel.size(), 1u);
  EXPECT_EQ(wheel.pop_expired(due), nullptr);
  const Instant later = due + kTick * 8 * 8 * 8;
  EXPECT_EQ(wheel.pop_expired(later), &nodes[0]);
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
