#include "base/values/sequence_number.h"

#include <gtest/gtest.h>

namespace uroce {
namespace {

TEST(Psn, WrapsAtTwentyFourBits) {
  EXPECT_EQ(Psn(0xFFFFFF) + 1, Psn(0));
  EXPECT_EQ(Psn(0) - 1u, Psn(0xFFFFFF));
  EXPECT_EQ(Psn(0x1000005).value(), 5u);
}

TEST(Psn, UpperBitsDoNotCount) {
  EXPECT_EQ((Psn(0xFFFFFF) + 1).value(), 0u);
  EXPECT_EQ((Psn(0) - 1u).value(), 0xFFFFFFu);
  EXPECT_EQ(Psn(0xAB000005), Psn(5));
  EXPECT_NE(Psn(0xAB000005), Psn(6));
  EXPECT_FALSE(Psn(0xAB000005).after(Psn(5)) || Psn(0xAB000005).before(Psn(5)));
}

TEST(Psn, DistanceIsSignedAcrossTheWrap) {
  EXPECT_EQ(Psn(2) - Psn(0xFFFFFE), 4);
  EXPECT_EQ(Psn(0xFFFFFE) - Psn(2), -4);
  EXPECT_EQ(Psn(0x7FFFFF) - Psn(0), 0x7FFFFF);
  EXPECT_EQ(Psn(0x800000) - Psn(0), -0x800000);
}

TEST(Psn, OrderFollowsTheDistance) {
  EXPECT_TRUE(Psn(0xFFFFFF).before(Psn(0)));
  EXPECT_TRUE(Psn(0).after(Psn(0xFFFFFF)));
  EXPECT_FALSE(Psn(7).before(Psn(7)));
  EXPECT_FALSE(Psn(7).after(Psn(7)));
}

}  // namespace
}  // namespace uroce
