#include "base/values/contract.h"

#include <gtest/gtest.h>

namespace uroce {
namespace {

#if UROCE_CONTRACTS

TEST(ContractDeathTest, Broken_ExpectTheConditionAndItsPlaceAndTheEnd) {
  const int two = 2;
  EXPECT_DEATH(UROCE_ASSERT(two + two == 5),
               "contract_test.cc:[0-9]+: TestBody: broken contract: two \\+ two == 5");
}

TEST(Contract, Kept_ExpectItEvaluatedOnce) {
  int evaluated = 0;
  UROCE_ASSERT(++evaluated > 0);
  EXPECT_EQ(evaluated, 1);
}

#else

TEST(Contract, Off_ExpectNothingEvaluated) {
  int evaluated = 0;
  UROCE_ASSERT(++evaluated < 0);
  EXPECT_EQ(evaluated, 0);
}

#endif

TEST(Contract, ConditionWithACommaInIt_ExpectOneCondition) {
  const auto less = [](int a, int b) { return a < b; };
  UROCE_ASSERT(less(1, 2));
}

}  // namespace
}  // namespace uroce
