#include "base/tables/index_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace uroce {
namespace {

constexpr uint32_t kAll = 1u << 15;

IndexOrder order_of(HashKey key) {
  IndexOrder order({.key = key});
  order.add(1, kAll);
  return order;
}

std::vector<uint32_t> take_all(IndexOrder& order) {
  std::vector<uint32_t> taken;
  while (const auto index = order.take(0)) taken.push_back(*index);
  return taken;
}

TEST(IndexOrder, WithAKey_ExpectEveryIndexOnceInAnOrderOfItsOwn) {
  IndexOrder first = order_of({1, 2});
  IndexOrder second = order_of({1, 3});
  IndexOrder again = order_of({1, 2});
  const std::vector<uint32_t> taken = take_all(first);
  EXPECT_EQ(taken.size(), kAll - 1);
  EXPECT_EQ(std::set(taken.begin(), taken.end()).size(), taken.size());
  EXPECT_EQ(taken, take_all(again)) << "the same key repeats a run";
  const std::vector<uint32_t> other = take_all(second);
  size_t same = 0;
  for (size_t i = 0; i < taken.size(); ++i) same += taken[i] == other[i] ? 1 : 0;
  EXPECT_LT(same, 16u) << "one is expected by chance";
}

/// What a peer would try: the next is the last one and the step before it, or a step that is frequent.
TEST(IndexOrder, WithAKey_ExpectStepsThatTellNothing) {
  IndexOrder order = order_of({7, 7});
  const std::vector<uint32_t> taken = take_all(order);
  std::vector<uint32_t> steps;
  size_t repeated = 0;
  for (size_t i = 1; i < 8192; ++i) {
    steps.push_back((taken[i] - taken[i - 1]) & (kAll - 1));
    if (i > 1) repeated += steps[i - 1] == steps[i - 2] ? 1 : 0;
  }
  EXPECT_LT(repeated, 8u);
  std::ranges::sort(steps);
  size_t most = 0;
  for (auto at = steps.begin(); at != steps.end();) {
    const auto end = std::upper_bound(at, steps.end(), *at);
    most = std::max(most, static_cast<size_t>(end - at));
    at = end;
  }
  EXPECT_LT(most, 12u) << "of 8191 steps, one in four is taken once by chance";
}

TEST(IndexOrder, FreedIndexes_ExpectThemToRest) {
  constexpr uint32_t kRest = 100;
  IndexOrder order({.key = HashKey{1, 1}, .resting_min = kRest, .candidates_min = 64});
  order.add(1, 400);
  std::vector<uint32_t> freed;  // the latest last
  for (int i = 0; i < 20000; ++i) {
    const auto index = order.take(0);
    ASSERT_TRUE(index);
    const auto found = std::find(freed.rbegin(), freed.rend(), *index);
    if (found != freed.rend()) {
      ASSERT_GE(found - freed.rbegin(), kRest);
    }
    order.give_back(*index, 0);
    freed.push_back(*index);
  }
}

TEST(IndexOrder, Pools_ExpectIndexesToComeBackToTheirsWhileThereAreOthers) {
  IndexOrder order({.key = HashKey{1, 1}, .resting_min = 4});
  order.add(1, 1000);
  std::set<uint32_t> of_second;
  for (int i = 0; i < 300; ++i) of_second.insert(*order.take(1));
  for (const uint32_t index : of_second) order.give_back(index, 1);
  std::set<uint32_t> of_first;
  while (of_first.size() < 699) {
    const auto index = order.take(0);
    ASSERT_TRUE(index);
    ASSERT_FALSE(of_second.contains(*index));
    of_first.insert(*index);
  }
  EXPECT_TRUE(order.wants_more(0));
  for (int i = 0; i < 300; ++i)
    EXPECT_TRUE(of_second.contains(order.take(0).value())) << "better than nothing";
  EXPECT_EQ(order.take(0), std::nullopt);
}

}  // namespace
}  // namespace uroce
