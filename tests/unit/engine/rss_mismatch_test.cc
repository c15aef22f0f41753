// When a queue pair follows packets that come to another poller than its own.
#include "engine/poller/rss_mismatch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace uroce::engine {
namespace {

/// How many bursts in a row it takes.
uint32_t bursts(RssMismatch& rss_mismatch, QpNumber number, uint16_t sibling = 1) {
  uint32_t count = 1;
  while (!rss_mismatch.note(sibling, number)) ++count;
  return count;
}

TEST(RssMismatch, TakesManyInARowOfOneSibling) {
  RssMismatch rss_mismatch;
  const QpNumber number{77};
  const uint32_t first = bursts(rss_mismatch, number);
  EXPECT_GE(first, 32u);
  EXPECT_LE(first, 128u);
  EXPECT_EQ(bursts(rss_mismatch, number), first) << "counted anew";
  for (uint32_t i = 0; i + 1 < first; ++i) EXPECT_FALSE(rss_mismatch.note(1, number));
  EXPECT_TRUE(rss_mismatch.any());
  rss_mismatch.forget();
  EXPECT_FALSE(rss_mismatch.any());
  EXPECT_EQ(bursts(rss_mismatch, number), first);
  for (uint32_t i = 0; i < 10 * first; ++i)
    EXPECT_FALSE(rss_mismatch.note(static_cast<uint16_t>(1 + i % 2), number)) << "of two";
}

TEST(RssMismatch, ComesLaterWithEachMoveUntilItHasStayed) {
  RssMismatch rss_mismatch;
  const QpNumber number{77};
  Instant now{1'000'000'000};
  uint32_t most = bursts(rss_mismatch, number);
  for (int i = 0; i < 6; ++i) {
    now = now + milliseconds(1);
    rss_mismatch.moved(now, {});
    const uint32_t next = bursts(rss_mismatch, number);
    EXPECT_GE(next, (32u << i));
    most = std::max(most, next);
  }
  EXPECT_GT(most, 1000u);
  rss_mismatch.moved(now + seconds(2), {});
  EXPECT_LE(bursts(rss_mismatch, number), 256u);
}

TEST(RssMismatch, TwoEndsSeldomAgree) {
  // Of a connection both of whose ends are about to move to each other's poller: the one with less patience
  // goes alone.
  uint32_t same = 0;
  for (uint32_t number = 0; number < 1000; ++number) {
    RssMismatch one;
    RssMismatch other;
    const uint32_t a = bursts(one, QpNumber{number});
    const uint32_t b = bursts(other, QpNumber{number * 7919 % 1'000'003});
    same += a > b - b / 16 && a < b + b / 16 ? 1 : 0;
  }
  EXPECT_LT(same, 200u);
}

}  // namespace
}  // namespace uroce::engine
