#include "base/tables/number_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/values/identifiers.h"

namespace uroce {
namespace {

using Table = NumberTable<QpNumber, int>;

constexpr Table::Options kOptions{
    .numbers = 1u << 20, .first = 1000, .generations = 16, .key = HashKey{5, 6}};

TEST(NumberTable, OneAfterTheOther_ExpectNumbersToReturnAsLateAsPossible) {
  Table table(kOptions);
  Instant now{};
  std::vector<uint32_t> latest(kOptions.numbers);  // of a number: when it was used; 0: not yet
  uint32_t soonest = UINT32_MAX;
  for (uint32_t i = 1; i <= 600000; ++i) {
    const auto number = table.allocate(now);
    ASSERT_TRUE(number);
    ASSERT_GE(number->value, kOptions.first);
    ASSERT_LT(number->value, kOptions.first + kOptions.numbers);
    uint32_t& before = latest[number->value - kOptions.first];
    if (before != 0) soonest = std::min(soonest, i - before);
    before = i;
    table.give_back(*number, now);
    now = now + milliseconds(1);
  }
  EXPECT_GT(soonest, 16 * Table::kSlotsRestingMin);
}

TEST(NumberTable, NumbersOfOneSlot_ExpectOnlyTheLivingOneToBeFound) {
  Table table({.numbers = 4, .first = 100, .generations = 2});
  int object = 0;
  Instant now{};
  const QpNumber first = table.allocate(now).value();
  table.publish(first, object);
  EXPECT_EQ(table.find(first), &object);
  table.unpublish(first);
  table.give_back(first, now);
  EXPECT_FALSE(table.allocate(now)) << "it rests";
  now = now + Table::kRest;
  const QpNumber second = table.allocate(now).value();
  EXPECT_NE(first, second);
  table.publish(second, object);
  EXPECT_EQ(table.find(second), &object);
  EXPECT_EQ(table.find(first), nullptr) << "a packet for the one before it";
  for (const uint32_t number : {0u, 1u, 99u, 104u, QpNumber::kMask}) EXPECT_EQ(table.find({number}), nullptr);
}

TEST(NumberTable, NumbersThatNoPeerKnew_ExpectThemAtOnceAndOthersWhenTheyHaveRested) {
  Table table({.numbers = 64, .first = 100, .key = HashKey{5, 6}});
  Instant now{};
  // Far more than there are, one at a time.
  for (int i = 0; i < 10'000; ++i) {
    const auto number = table.allocate(now);
    ASSERT_TRUE(number) << i;
    table.give_back(*number, now, Table::Known::kToNobody);
  }
  EXPECT_FALSE(table.rested_at());
  for (uint32_t i = 0; i < table.capacity(); ++i) {
    const auto number = table.allocate(now);
    ASSERT_TRUE(number) << i;
    table.give_back(*number, now);
    now = now + milliseconds(1);
  }
  EXPECT_FALSE(table.allocate(now));
  ASSERT_TRUE(table.rested_at());
  EXPECT_EQ(*table.rested_at(), Instant{} + Table::kRest);
  EXPECT_TRUE(table.allocate(*table.rested_at()));
}

TEST(NumberTable, WithTwoKeys_ExpectTwoOrders) {
  Table::Options options = kOptions;
  Table first(options);
  options.key = HashKey{5, 7};
  Table second(options);
  int same = 0;
  int steps_of_one = 0;
  QpNumber before{};
  for (int i = 0; i < 1000; ++i) {
    const QpNumber number = first.allocate({}).value();
    same += number == second.allocate({}).value() ? 1 : 0;
    steps_of_one += number.value == before.value + 1 ? 1 : 0;
    before = number;
  }
  EXPECT_LT(same, 4);
  EXPECT_LT(steps_of_one, 4);
}

}  // namespace
}  // namespace uroce
