#include "service/device_numbers.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <set>

namespace uroce::service {
namespace {

constexpr uint32_t kUnit = 1u << host::kBlockBits;
constexpr uint32_t kWanted = 1u << 16;
constexpr uint64_t kQuota = 1u << 21;
constexpr uint64_t kPrograms = 256;
constexpr Instant kNow{1'000'000'000};

struct NumbersOfUsers : ::testing::Test {
  NumbersOfUsers() { numbers.set_quota(kQuota); }
  /// Programs of the user, each of which would like to have `count` numbers, until one is refused.
  std::vector<NumberBlock> start(uid_t user, uint64_t programs, uint32_t count = kWanted,
                                 Instant now = kNow) {
    std::vector<NumberBlock> blocks;
    for (uint64_t i = 0; i < programs; ++i) {
      const auto block = numbers.allocate(
          {.user = user, .program = ++last_program, .count = count, .programs_left = programs - i - 1}, now);
      if (!block) {
        EXPECT_TRUE(block.error().code == EDQUOT || block.error().code == EAGAIN);
        break;
      }
      blocks.push_back(*block);
      programs_of[block->first] = last_program;
    }
    return blocks;
  }
  void end(NumberBlock block, Instant now) { numbers.free(block, programs_of[block.first], now); }

  DeviceNumbers numbers{5};
  uint32_t last_program = 0;
  std::map<uint32_t, uint32_t> programs_of;
};

TEST_F(NumbersOfUsers, AUserWithAllHisPrograms_ExpectOneForEach) {
  const auto blocks = start(7, kPrograms);
  ASSERT_EQ(blocks.size(), kPrograms);
  EXPECT_EQ(blocks.front().count, kWanted) << "of many numbers the first program has what it wants";
  EXPECT_GE(blocks.back().count, kUnit);
  EXPECT_LE(numbers.shares().of(7), kQuota);
}

TEST_F(NumbersOfUsers, UsersThatTakeAllTheyCan_ExpectAUsefulBlockForOthers) {
  uint32_t users = 0;
  for (; !start(users, kPrograms, 1u << 22).empty(); ++users) ASSERT_LT(users, 1000u);
  // Those that had none of it before found the reserve, and a further one nothing: he may come when the first
  // have gone.
  EXPECT_GE(users, 6u + 16u);
  EXPECT_LE(numbers.shares().total(), DeviceNumbers::kNumbers);
}

TEST_F(NumbersOfUsers, SixGreedyUsers_ExpectFurtherOnesToHaveSixteenProgramsEach) {
  for (uid_t user = 0; user < 6; ++user) start(user, kPrograms, 1u << 22);
  for (uid_t user = 100; user < 116; ++user) {
    const auto blocks = start(user, 16);
    ASSERT_EQ(blocks.size(), 16u) << user;
  }
}

TEST_F(NumbersOfUsers, ProgramsThatComeAndGo_ExpectTheirNumbersToCountUntilTheyHaveRested) {
  uint64_t taken = 0;
  for (auto blocks = start(7, 1); !blocks.empty(); blocks = start(7, 1)) {
    taken += blocks.front().count;
    end(blocks.front(), kNow);
  }
  EXPECT_LE(taken, kQuota);
  EXPECT_EQ(numbers.shares().of(7), taken);
  EXPECT_EQ(start(8, 1).front().count, kWanted) << "others have theirs";
  const Instant later = kNow + host::NumberBlocks::kRest;
  EXPECT_TRUE(start(7, 1, kWanted, later - nanoseconds(1)).empty());
  EXPECT_EQ(start(7, 1, kWanted, later).front().count, kWanted);
}

TEST_F(NumbersOfUsers, TheSameBlockAgain_ExpectItToCountOnce) {
  const NumberBlock block = start(7, 1).front();
  end(block, kNow);
  const auto claimed = numbers.claim(block, 7, 1000, kNow);
  ASSERT_TRUE(claimed);
  EXPECT_EQ(*claimed, block);
  EXPECT_EQ(numbers.shares().of(7), block.count);
  const auto twice = numbers.claim(block, 7, 1001, kNow);
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, EEXIST);
  EXPECT_EQ(numbers.shares().of(7), block.count);
}

TEST_F(NumbersOfUsers, ABlockBeyondTheQuota_ExpectARefusal) {
  const NumberBlock large{1u << 22, 1u << 22};
  const auto refused = numbers.claim(large, 7, 1, kNow);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EDQUOT);
  EXPECT_NE(refused.error().message.find("service.numbers_per_user"), std::string::npos);
  EXPECT_EQ(numbers.owner_of({large.first}), 0u);
}

}  // namespace
}  // namespace uroce::service
