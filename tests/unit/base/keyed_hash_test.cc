#include "base/values/keyed_hash.h"

#include <gtest/gtest.h>

namespace uroce {
namespace {

// The vector that the authors of SipHash publish for key 00..0F and the 16 bytes 00..0F.
static_assert(keyed_hash({0x0706050403020100, 0x0F0E0D0C0B0A0908}, 0x0706050403020100, 0x0F0E0D0C0B0A0908) ==
              0x3F2ACC7F57C29BDB);

TEST(KeyedHash, KeysForPurposes_ExpectThemApart) {
  const HashKey key{1, 2};
  const HashKey first = derive(key, 1);
  const HashKey second = derive(key, 2);
  EXPECT_NE(first.low, second.low);
  EXPECT_NE(first.high, second.high);
  EXPECT_NE(first.low, first.high);
  EXPECT_NE(keyed_hash(first, 0, 0), keyed_hash(second, 0, 0));
}

}  // namespace
}  // namespace uroce
