// Doorbells, without queue pairs.
#include "engine/poller/doorbells.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace uroce::engine {
namespace {

/// What is posted to, as a queue pair is.
struct Bell : Doorbell {
  std::atomic<uint32_t> posted{0};
  uint32_t seen = 0;  // the poller's
};

std::vector<Doorbell*> take_all(Doorbells& doorbells) {
  std::vector<Doorbell*> taken;
  while (Doorbell* const one = doorbells.take()) taken.push_back(one);
  return taken;
}

TEST(Doorbells, AreHeardInTheOrderInWhichTheyRang) {
  Doorbells doorbells;
  std::array<Bell, 3> bells;
  EXPECT_EQ(doorbells.take(), nullptr);
  for (Bell& bell : bells) EXPECT_TRUE(doorbells.ring(bell));
  EXPECT_EQ(take_all(doorbells), (std::vector<Doorbell*>{&bells[0], &bells[1], &bells[2]}));
  EXPECT_EQ(doorbells.take(), nullptr);
}

TEST(Doorbells, OneThatHasRungIsInTheListOnce) {
  Doorbells doorbells;
  Bell bell;
  EXPECT_FALSE(Doorbells::has_rung(bell));
  EXPECT_TRUE(doorbells.ring(bell));
  EXPECT_TRUE(Doorbells::has_rung(bell));
  EXPECT_FALSE(doorbells.ring(bell));
  EXPECT_EQ(take_all(doorbells), (std::vector<Doorbell*>{&bell}));
  EXPECT_FALSE(Doorbells::has_rung(bell));
}

TEST(Doorbells, RingAgainAfterTheyWereHeard) {
  Doorbells doorbells;
  std::array<Bell, 2> bells;
  for (int round = 0; round < 5; ++round) {
    EXPECT_TRUE(doorbells.ring(bells[0]));
    EXPECT_TRUE(doorbells.ring(bells[1]));
    EXPECT_EQ(doorbells.take(), &bells[0]);
    EXPECT_TRUE(doorbells.ring(bells[0]));  // behind the other
    EXPECT_EQ(take_all(doorbells), (std::vector<Doorbell*>{&bells[1], &bells[0]}));
  }
}

TEST(Doorbells, OneThatWasHeardMayGo) {
  Doorbells doorbells;
  Bell stays;
  for (int round = 0; round < 3; ++round) {
    // The sanitizer would see a list that still leads to it.
    auto goes = std::make_unique<Bell>();
    EXPECT_TRUE(doorbells.ring(*goes));
    EXPECT_EQ(take_all(doorbells), (std::vector<Doorbell*>{goes.get()}));
    goes.reset();
    EXPECT_TRUE(doorbells.ring(stays));
    EXPECT_EQ(take_all(doorbells), (std::vector<Doorbell*>{&stays}));
  }
}

/// Threads post and ring while one takes. Each thread posts to bells of its own and to one that all share.
TEST(Doorbells, NothingThatIsPostedIsMissed) {
  constexpr uint32_t kThreads = 3;
  constexpr uint32_t kPosts = 20'000;
  constexpr uint32_t kOwn = 4;
  Doorbells doorbells;
  std::array<std::array<Bell, kOwn>, kThreads> own;
  Bell shared;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint32_t i = 0; i < kPosts; ++i) {
        Bell& bell = i % 2 == 0 ? own[t][i / 2 % kOwn] : shared;
        bell.posted.fetch_add(1, std::memory_order_relaxed);
        doorbells.ring(bell);
      }
    });
  }
  uint32_t seen = 0;
  while (seen < kThreads * kPosts) {
    auto* const bell = static_cast<Bell*>(doorbells.take());
    if (bell == nullptr) {
      std::this_thread::yield();
      continue;
    }
    const uint32_t posted = bell->posted.load(std::memory_order_relaxed);
    ASSERT_GE(posted, bell->seen);
    seen += posted - bell->seen;
    bell->seen = posted;
  }
  for (std::thread& thread : threads) thread.join();
  // What rang after its post was seen with an earlier one.
  for (const Doorbell* const late : take_all(doorbells)) {
    const auto& bell = static_cast<const Bell&>(*late);
    EXPECT_EQ(bell.posted, bell.seen);
  }
  EXPECT_EQ(doorbells.take(), nullptr);
}

}  // namespace
}  // namespace uroce::engine
