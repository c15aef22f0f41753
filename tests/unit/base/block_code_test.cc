#include "base/tables/block_code.h"

#include <gtest/gtest.h>

#include <set>

namespace uroce {
namespace {

constexpr uint32_t kUnit = 1u << BlockCode::kUnitBits;
constexpr uint32_t kUnits = (QpNumber::kMask + 1) / kUnit;

TEST(BlockCode, EveryBlock_ExpectACodeOfItsOwnThatContainsItsNumbersOnly) {
  std::set<uint16_t> seen;
  for (uint32_t count = 1; count <= kUnits; count *= 2) {
    for (uint32_t first = 0; first < kUnits; first += count) {
      const NumberBlock block{first * kUnit, count * kUnit};
      const BlockCode code = BlockCode::of(block);
      ASSERT_LT(code.value, 1u << BlockCode::kBits);
      ASSERT_NE(code.value, 0);
      ASSERT_TRUE(seen.insert(code.value).second) << first << " " << count;
      for (const uint32_t number : {block.first, block.first + block.count - 1, block.first + block.count / 2,
                                    block.first - 1, block.first + block.count, 0u, QpNumber::kMask}) {
        const QpNumber of{number & QpNumber::kMask};
        ASSERT_EQ(code.contains(of), block.contains(of)) << first << " " << count << " " << number;
      }
    }
  }
}

TEST(BlockCode, None_ExpectNothingInIt) {
  for (uint32_t number = 0; number <= QpNumber::kMask; number += 4095)
    EXPECT_FALSE(BlockCode{}.contains({number}));
}

}  // namespace
}  // namespace uroce
