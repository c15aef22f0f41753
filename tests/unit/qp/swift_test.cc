#include "qp/congestion/swift.h"

#include <gtest/gtest.h>

#include "qp/congestion/rate_limit.h"

namespace uroce::qp {
namespace {

constexpr Instant kStart{1'000'000'000};
constexpr Duration kBase = microseconds(20);

class SwiftTest : public ::testing::Test {
 protected:
  // The window alone decides about the target, and 100 packets are beyond its scaling.
  SwiftOptions options{.target_us = 50, .scaling_us = 0};
  Swift swift{4096};
  Instant now = kStart;

  void measure(Duration sample) {
    now = now + sample;
    swift.filled();
    swift.measured(options, sample, now);
  }
  /// In steady state, with a window of that many packets at least.
  void grow_to(double window) {
    while (swift.window() < window) measure(kBase);
    ASSERT_LT(swift.window(), 2 * window);
  }
  /// The first queue, and behind it the search for the shortest round trip.
  void end_doubling() {
    const double window = swift.window();
    measure(kBase + microseconds(51));
    while (swift.window() < window * 0.9) measure(kBase);
  }
};

TEST_F(SwiftTest, BeginsWithAPacketThenTenAndDoublesThem) {
  EXPECT_EQ(swift.window(), 1);
  for (const double window : {10.0, 20.0, 40.0, 80.0, 160.0, 256.0, 256.0}) {
    measure(kBase);
    EXPECT_EQ(swift.window(), window);
  }
}

TEST_F(SwiftTest, TheTargetIsAboveTheShortestRoundTripAndMoreSoForASmallWindow) {
  EXPECT_EQ(swift.target(options), Duration{});
  options.scaling_us = 100;
  measure(microseconds(30));
  measure(kBase);
  ASSERT_EQ(swift.window(), 20);
  // 1/sqrt(20) of the way from 1/sqrt(100) to 1/sqrt(0.1).
  EXPECT_NEAR(static_cast<double>((swift.target(options) - kBase - microseconds(50)).ns), 4036, 1);
  grow_to(128);
  EXPECT_EQ(swift.target(options), kBase + microseconds(50));
}

TEST_F(SwiftTest, BehindTheFirstQueueAPacketMoreForEachRoundTrip) {
  grow_to(40);
  end_doubling();
  const double window = swift.window();
  measure(kBase + microseconds(50));
  EXPECT_EQ(swift.window(), window + 1);
  measure(kBase);
  EXPECT_EQ(swift.window(), window + 2);
}

TEST_F(SwiftTest, AWindowThatIsNotFilledDoesNotGrow) {
  grow_to(40);
  const double window = swift.window();
  swift.measured(options, kBase, now + kBase);
  EXPECT_EQ(swift.window(), window);
}

TEST_F(SwiftTest, BeyondTheTargetItIsCutByBetaOfWhatIsBeyond) {
  grow_to(40);
  end_doubling();
  const double window = swift.window();
  // 10 of 80 us.
  measure(kBase + microseconds(60));
  EXPECT_NEAR(swift.window(), window * (1 - 0.8 * 10 / 80), 1e-9);
}

TEST_F(SwiftTest, NeverByMoreThanHalfAndOnceInARoundTrip) {
  grow_to(40);
  end_doubling();
  const double window = swift.window();
  measure(milliseconds(1));
  EXPECT_EQ(swift.window(), window / 2);
  swift.measured(options, milliseconds(1), now + microseconds(999));
  EXPECT_EQ(swift.window(), window / 2);
  swift.measured(options, milliseconds(1), now + milliseconds(1));
  EXPECT_EQ(swift.window(), window / 4);
}

TEST_F(SwiftTest, AnAckTimeoutHalves) {
  grow_to(40);
  end_doubling();
  const double window = swift.window();
  now = now + milliseconds(4);
  swift.timed_out(options, now);
  EXPECT_EQ(swift.window(), window / 2);
}

TEST_F(SwiftTest, AFloodOfLongRoundTripsEndsAtTheLeastWindowAndIsOverWithThem) {
  options.base_us = 20;
  grow_to(40);
  for (int i = 0; i < 100; ++i) {
    measure(milliseconds(10));
    ASSERT_GE(swift.window(), Swift::kWindowLeast);
  }
  EXPECT_EQ(swift.window(), Swift::kWindowLeast);
  EXPECT_NEAR(swift.rate(), 4096 * 8 / 64.0 / 10'000, 1e-6) << "a packet in 640 ms";
  grow_to(100);
}

/// A path that has become longer.
TEST_F(SwiftTest, TheShortestRoundTripIsForgottenAndLookedForAgain) {
  grow_to(40);
  end_doubling();
  const Duration longer = kBase + microseconds(200);
  for (const Instant end = now + milliseconds(110); now < end;) measure(longer);
  EXPECT_EQ(swift.target(options), longer + microseconds(50));
  const double window = swift.window();
  measure(longer);
  measure(longer);
  EXPECT_GT(swift.window(), window);
}

TEST_F(SwiftTest, ABaseThatIsGivenIsNotMeasured) {
  options.base_us = 40;
  measure(kBase);
  EXPECT_EQ(swift.target(options), microseconds(90));
  measure(microseconds(90));
  EXPECT_EQ(swift.window(), 20);
  measure(microseconds(100));
  EXPECT_NEAR(swift.window(), 20 * (1 - 0.8 * 10 / 100), 1e-9) << "and nothing is looked for";
}

TEST(LimitOfSwift, IsAWindowAndBelowAPacketTime) {
  CongestionOptions options{.control = CongestionControl::kSwift, .swift = {.base_us = 20, .scaling_us = 0}};
  RateLimit limit;
  limit.begin(options, 1000, {});
  ASSERT_TRUE(limit.limits());
  EXPECT_FALSE(limit.limits_responses());
  EXPECT_EQ(limit.window(), 1u);
  EXPECT_EQ(limit.rate(), 0);
  PathSeen seen;
  Instant now = kStart;
  const auto measure = [&](Duration round_trip) {
    now = now + round_trip;
    seen = {.samples = seen.samples + 1, .round_trip = round_trip};
    limit.filled();
    limit.heed(options, seen, now);
  };
  measure(microseconds(20));
  EXPECT_EQ(limit.window(), 10u);
  limit.heed(options, seen, now + milliseconds(1));
  EXPECT_EQ(limit.window(), 10u) << "the same round trip is heeded once";
  // 5, 2.5, 1.25, 0.625, 0.3125 and so on: at 0.3125 packets of 1000 bytes in 1 ms.
  for (int i = 0; i < 5; ++i) measure(milliseconds(1));
  EXPECT_EQ(limit.window(), 1u);
  EXPECT_NEAR(limit.rate(), 2.5, 1e-9);
  ASSERT_TRUE(limit.may_send(options, now));
  limit.sent(options, 1000);
  limit.sent(options, 1000);
  EXPECT_FALSE(limit.may_send(options, now));
  EXPECT_EQ(limit.deadline(), now + microseconds(6400) - microseconds(48));
}

TEST(LimitOfSwift, DoesNotHeedCnps) {
  const CongestionOptions options{.control = CongestionControl::kSwift};
  RateLimit limit;
  limit.begin(options, 1000, {});
  limit.cnp(options, kStart);
  EXPECT_FALSE(limit.limits_responses());
  EXPECT_EQ(limit.window(), 1u);
}

}  // namespace
}  // namespace uroce::qp
