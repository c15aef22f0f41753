#include "service/user_shares.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

#include "base/values/random.h"

namespace uroce::service {
namespace {

using Held = UserShares::Held;

UserShares::Limits limits() {
  UserShares::Limits limits = UserShares::Limits::with_reserve(1024, 256);
  limits.what = "things";
  limits.key = "service.things_per_user";
  limits.key_all = "service.things";
  return limits;
}

TEST(UserShares, OneUser_ExpectHisQuotaAndNoMore) {
  UserShares shares(limits());
  auto held = shares.take(7, 256);
  ASSERT_TRUE(held);
  EXPECT_EQ(shares.of(7), 256u);
  EXPECT_EQ(shares.available(7), 0u);
  const auto refused = shares.take(7, 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EDQUOT);
  EXPECT_EQ(refused.error().message, "user 7 has 256 of at most 256 things (service.things_per_user)");
  // Expect: what he gives back he may have again, and others are not concerned.
  EXPECT_TRUE(shares.take(8, 256));
  held->give_back(10);
  EXPECT_EQ(shares.available(7), 10u);
  *held = {};
  EXPECT_EQ(shares.of(7), 0u);
  EXPECT_EQ(shares.total(), 0u);
}

TEST(UserShares, AllThatUsersMayHaveIsTaken_ExpectAPartOfTheReserveForEachOther) {
  UserShares shares(limits());
  std::vector<Held> held;
  for (uid_t user = 0; user < 3; ++user) held.push_back(std::move(*shares.take(user, 256)));
  // The rest is the reserve: 256, of which each of 16 more users may have 16.
  EXPECT_FALSE(shares.take(100, 17));
  for (uid_t user = 100; user < 116; ++user) {
    EXPECT_EQ(shares.available(user), 16u);
    auto little = shares.take(user, 16);
    ASSERT_TRUE(little) << user;
    held.push_back(std::move(*little));
    const auto more = shares.take(user, 1);
    ASSERT_FALSE(more);
    EXPECT_NE(more.error().message.find("service.things"), std::string::npos);
  }
  EXPECT_EQ(shares.total(), 1024u);
  EXPECT_FALSE(shares.take(200, 1));
  // A user with many gives one back. Expect: that is not enough for others with many, but for one with few.
  held.front().give_back(1);
  EXPECT_FALSE(shares.take(0, 1));
  EXPECT_TRUE(shares.take(200, 1));
}

TEST(UserShares, WhatWasHadBefore_ExpectItWhateverTheReserve) {
  UserShares shares(limits());
  std::vector<Held> held;
  for (uid_t user = 100; user < 116; ++user) held.push_back(std::move(*shares.take(user, 16)));
  for (uid_t user = 0; user < 3; ++user) {
    auto again = shares.take_again(user, 256);
    ASSERT_TRUE(again) << user;
    held.push_back(std::move(*again));
  }
  EXPECT_FALSE(shares.take_again(0, 1));
}

TEST(UserShares, LowerLimits_ExpectThatOnlyWhatIsNewIsRefused) {
  UserShares shares(limits());
  auto held = shares.take(7, 200);
  shares.set_limits(UserShares::Limits::with_reserve(128, 100));
  EXPECT_EQ(shares.available(7), 0u);
  EXPECT_EQ(shares.available(8), 0u);
  held->give_back(150);
  EXPECT_EQ(shares.available(7), 46u) << "96 are not of the reserve";
}

TEST(UserShares, AddAndMove_ExpectEachGivenBackOnce) {
  UserShares shares(limits());
  Held all;
  for (int i = 0; i < 5; ++i) all.add(std::move(*shares.take(7, 3)));
  EXPECT_EQ(all.amount(), 15u);
  Held other = std::move(all);
  EXPECT_EQ(all.amount(), 0u);
  EXPECT_EQ(shares.of(7), 15u);
  other.give_back(15);
  EXPECT_EQ(shares.total(), 0u);
}

TEST(UserShares, AnyOrder_ExpectSumsToHoldAndEveryoneToFindHisPart) {
  Random random(11);
  UserShares shares(limits());
  std::vector<std::pair<uid_t, Held>> held;
  for (int step = 0; step < 20'000; ++step) {
    const auto user = static_cast<uid_t>(random.below(8));
    const uint64_t amount = 1 + random.below(64);
    if (random.chance(1, 2) && !held.empty()) {
      held.erase(held.begin() + static_cast<ptrdiff_t>(random.below(held.size())));
    } else if (auto taken = shares.take(user, amount)) {
      ASSERT_EQ(taken->amount(), amount);
      held.emplace_back(user, std::move(*taken));
    }
    uint64_t sum = 0;
    for (const auto& [of, part] : held) sum += part.amount();
    ASSERT_EQ(sum, shares.total());
    ASSERT_LE(shares.total(), 1024u);
    for (uid_t of = 0; of < 8; ++of) ASSERT_LE(shares.of(of), 256u);
    // One who has nothing always finds his part of the reserve: there are no more than 16 that could have
    // one.
    ASSERT_GE(shares.available(99), 16u);
  }
}

}  // namespace
}  // namespace uroce::service
