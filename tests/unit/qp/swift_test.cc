#include "qp/congestion/swift.h"

#include <gtest/gtest.h>

#include <optional>

namespace uroce::qp {
namespace {

constexpr Instant kStart{1'000'000'000};
constexpr Duration kBase = microseconds(20);
constexpr Duration kTarget = microseconds(50);

class SwiftTest : public ::testing::Test {
 protected:
  SwiftTest() { given_base({}); }

  void given_base(Duration base) {
    swift.emplace(Swift::Options{.base = base, .target = kTarget});
    swift->path_changed(4096);
  }

  void measure(Duration sample) {
    now = now + sample;
    swift->window_filled();
    swift->acknowledged(sample, now);
  }
  /// In steady state, with a window of that many packets at least.
  void grow_to(double window) {
    while (swift->packets() < window) measure(kBase);
    ASSERT_LT(swift->packets(), 2 * window);
  }
  /// The first queue, and behind it the search for the shortest round trip.
  void end_doubling() {
    const double window = swift->packets();
    measure(swift->target() + microseconds(1));
    while (swift->packets() < window * 0.9) measure(kBase);
  }

  std::optional<Swift> swift;
  Instant now = kStart;
};

TEST_F(SwiftTest, BeginsWithAPacketThenTenAndDoublesThem) {
  EXPECT_EQ(swift->packets(), 1);
  for (const double window : {10.0, 20.0, 40.0, 80.0, 160.0, 256.0, 256.0}) {
    measure(kBase);
    EXPECT_EQ(swift->packets(), window);
  }
}

TEST_F(SwiftTest, TheTargetIsAboveTheShortestRoundTripAndMoreSoForASmallWindow) {
  EXPECT_EQ(swift->target(), Duration{});
  measure(microseconds(30));
  measure(kBase);
  ASSERT_EQ(swift->packets(), 20);
  // 1/sqrt(20) of the way from 1/sqrt(100) to 1/sqrt(0.1).
  EXPECT_NEAR(static_cast<double>((swift->target() - kBase - kTarget).ns), 4036, 1);
  grow_to(128);
  EXPECT_EQ(swift->target(), kBase + kTarget) << "beyond 100 packets the window does not count";
}

TEST_F(SwiftTest, BehindTheFirstQueueAPacketMoreForEachRoundTrip) {
  grow_to(40);
  end_doubling();
  const double window = swift->packets();
  measure(swift->target());
  EXPECT_EQ(swift->packets(), window + 1);
  measure(kBase);
  EXPECT_EQ(swift->packets(), window + 2);
}

TEST_F(SwiftTest, AWindowThatIsNotFilledDoesNotGrow) {
  grow_to(40);
  const double window = swift->packets();
  swift->acknowledged(kBase, now + kBase);
  EXPECT_EQ(swift->packets(), window);
}

TEST_F(SwiftTest, BeyondTheTargetItIsCutByBetaOfWhatIsBeyond) {
  grow_to(40);
  end_doubling();
  const double window = swift->packets();
  const Duration sample = swift->target() + microseconds(10);
  measure(sample);
  EXPECT_NEAR(swift->packets(), window * (1 - 0.8 * 10'000 / static_cast<double>(sample.ns)), 1e-9);
}

TEST_F(SwiftTest, NeverByMoreThanHalfAndOnceInARoundTrip) {
  grow_to(40);
  end_doubling();
  const double window = swift->packets();
  measure(milliseconds(1));
  EXPECT_EQ(swift->packets(), window / 2);
  swift->acknowledged(milliseconds(1), now + microseconds(999));
  EXPECT_EQ(swift->packets(), window / 2);
  swift->acknowledged(milliseconds(1), now + milliseconds(1));
  EXPECT_EQ(swift->packets(), window / 4);
}

TEST_F(SwiftTest, AnAckTimeoutHalves) {
  grow_to(40);
  end_doubling();
  const double window = swift->packets();
  now = now + milliseconds(4);
  swift->timed_out(now);
  EXPECT_EQ(swift->packets(), window / 2);
}

TEST_F(SwiftTest, AFloodOfLongRoundTripsEndsAtTheLeastWindowAndIsOverWithThem) {
  given_base(kBase);
  grow_to(40);
  for (int i = 0; i < 100; ++i) {
    measure(milliseconds(10));
    ASSERT_GE(swift->packets(), Swift::kWindowLeast);
  }
  EXPECT_EQ(swift->packets(), Swift::kWindowLeast);
  EXPECT_NEAR(swift->mbps(), 4096 * 8 / 64.0 / 10'000, 1e-6) << "a packet in 640 ms";
  grow_to(100);
}

/// A path that has become longer.
TEST_F(SwiftTest, TheShortestRoundTripIsForgottenAndLookedForAgain) {
  grow_to(40);
  end_doubling();
  const Duration longer = kBase + microseconds(200);
  for (const Instant end = now + milliseconds(110); now < end;) measure(longer);
  EXPECT_GE(swift->target(), longer + kTarget);
  EXPECT_LE(swift->target(), longer + kTarget + Swift::kScaling);
  const double window = swift->packets();
  measure(longer);
  measure(longer);
  EXPECT_GT(swift->packets(), window);
}

TEST_F(SwiftTest, ABaseThatIsGivenIsNotMeasured) {
  given_base(microseconds(40));
  measure(kBase);
  EXPECT_GE(swift->target(), microseconds(40) + kTarget);
  measure(swift->target());
  EXPECT_EQ(swift->packets(), 20);
  const Duration sample = swift->target() + microseconds(10);
  measure(sample);
  EXPECT_NEAR(swift->packets(), 20 * (1 - 0.8 * 10'000 / static_cast<double>(sample.ns)), 1e-9)
      << "and nothing is looked for";
}

TEST_F(SwiftTest, AWindowBelowAPacketIsTime) {
  given_base(kBase);
  measure(kBase);
  EXPECT_EQ(swift->window(), 10u);
  EXPECT_EQ(swift->mbps(), 0);
  for (int i = 0; i < 5; ++i) measure(milliseconds(1));
  EXPECT_EQ(swift->packets(), 0.3125);
  EXPECT_EQ(swift->window(), 1u);
  EXPECT_NEAR(swift->mbps(), 0.3125 * 4096 * 8 / 1000, 1e-9) << "in Mbit/s, of 1 ms";
}

TEST_F(SwiftTest, AnotherPathBeginsAnew) {
  grow_to(40);
  swift->path_changed(4096);
  EXPECT_EQ(swift->window(), 1u);
  EXPECT_EQ(swift->target(), Duration{});
  EXPECT_TRUE(swift->limits());
}

}  // namespace
}  // namespace uroce::qp
