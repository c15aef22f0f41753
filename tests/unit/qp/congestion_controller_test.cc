#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "qp/congestion/controller.h"
#include "qp/congestion/notification_point.h"
#include "tests/unit/qp/refused_memory.h"

// Events of congestion control, without a queue pair.
namespace uroce::qp {
namespace {

constexpr Instant kStart{1'000'000'000};
constexpr uint32_t kMtu = 1000;

/// 100 Mbit/s: 80 ns for a byte.
class PacerTest : public ::testing::Test {
 protected:
  static constexpr double kMbps = 100;

  PacerTest() { pacer.start(kStart); }

  [[nodiscard]] bool may_send(Instant now) { return pacer.may_send(kMbps, now); }
  void sent(uint32_t bytes) { pacer.sent(kMbps, bytes); }

  Pacer pacer;
};

TEST_F(PacerTest, APacketWaitsForThoseBeforeIt) {
  ASSERT_TRUE(may_send(kStart));
  sent(1000);
  EXPECT_FALSE(may_send(kStart));
  EXPECT_EQ(pacer.deadline(), kStart + microseconds(80));
  EXPECT_FALSE(may_send(kStart + microseconds(80) - nanoseconds(1)));
  EXPECT_TRUE(may_send(kStart + microseconds(80)));
  EXPECT_EQ(pacer.deadline(), kNever);
}

TEST_F(PacerTest, WithoutARateNothingWaits) {
  sent(1'000'000);
  EXPECT_FALSE(may_send(kStart));
  EXPECT_TRUE(pacer.may_send(0, kStart));
  EXPECT_EQ(pacer.deadline(), kNever);
}

TEST_F(PacerTest, WhatWasNotSentInTimeIsSentLaterWithin48us) {
  const Instant late = kStart + milliseconds(10);
  uint32_t packets = 0;
  for (; may_send(late); ++packets) sent(100);
  EXPECT_EQ(packets, 7u) << "48 us are 6 packets of 8 us, and the one that is due";
}

TEST_F(PacerTest, OverAMillisecondTheRateIsKept) {
  uint64_t bytes = 0;
  // Turns at odd times.
  for (Instant now = kStart; now < kStart + milliseconds(1); now = now + nanoseconds(7'777)) {
    for (; may_send(now); bytes += 333) sent(333);
  }
  EXPECT_NEAR(static_cast<double>(bytes), 12'500, 350);
}

TEST_F(PacerTest, OnAnotherClockAPacketWaitsAsLong) {
  sent(1000);
  EXPECT_FALSE(may_send(kStart));
  pacer.shift(seconds(1));
  EXPECT_EQ(pacer.deadline(), kStart + seconds(1) + microseconds(80));
  EXPECT_FALSE(may_send(pacer.deadline() - nanoseconds(1)));
  pacer.expire(pacer.deadline());
  EXPECT_EQ(pacer.deadline(), kNever);
}

class Controller : public ::testing::Test {
 protected:
  void choose(CongestionControl control, CongestionParameters parameters = {}) {
    ASSERT_TRUE(controller.choose({.control = control, .parameters = parameters}));
    controller.path_changed(kMtu, path);
  }
  void acknowledge(Duration round_trip) {
    now = now + round_trip;
    path = {.samples = path.samples + 1, .round_trip = round_trip};
    controller.window_filled();
    controller.observe(path, now);
  }

  CongestionController controller;
  PathStatistics path;
  Instant now = kStart;
};

TEST_F(Controller, WithoutAnAlgorithmCountsCnpsAndHoldsNothingBack) {
  choose(CongestionControl::kNone);
  controller.cnp(0, now);
  EXPECT_EQ(controller.cnps(), 1u);
  EXPECT_FALSE(controller.limits());
  EXPECT_FALSE(controller.limits_responses());
  EXPECT_EQ(controller.window(), UINT32_MAX);
  EXPECT_EQ(controller.mbps(), 0);
  EXPECT_EQ(controller.deadline(), kNever);
}

TEST_F(Controller, UnderDcqcnTheFirstCnpBeginsARate) {
  choose(CongestionControl::kDcqcn, {{"line_mbps", 200}});
  EXPECT_FALSE(controller.limits());
  controller.cnp(0, now);
  ASSERT_TRUE(controller.limits());
  EXPECT_TRUE(controller.limits_responses());
  ASSERT_TRUE(controller.may_send(now)) << "nothing left before it";
  controller.sent(500);
  EXPECT_FALSE(controller.may_send(now));
  EXPECT_EQ(controller.deadline(), now + microseconds(40));
  controller.reset();
  EXPECT_FALSE(controller.limits());
  EXPECT_EQ(controller.cnps(), 0u);
}

TEST_F(Controller, UnderDcqcnTimeEndsTheLimitWhenItIsAskedFor) {
  choose(CongestionControl::kDcqcn, {{"line_mbps", 200}});
  controller.cnp(0, now);
  controller.sent(1'000'000);
  EXPECT_FALSE(controller.may_send(now + microseconds(1)));
  EXPECT_TRUE(controller.may_send(now + milliseconds(5)));
  EXPECT_FALSE(controller.limits());
}

TEST_F(Controller, UnderSwiftIsAWindowAndBelowAPacketTime) {
  choose(CongestionControl::kSwift, {{"base_us", 20}});
  ASSERT_TRUE(controller.limits());
  EXPECT_FALSE(controller.limits_responses());
  EXPECT_EQ(controller.window(), 1u);
  EXPECT_EQ(controller.mbps(), 0);
  acknowledge(microseconds(20));
  EXPECT_EQ(controller.window(), 10u);
  controller.window_filled();
  controller.observe(path, now + milliseconds(1));
  EXPECT_EQ(controller.window(), 10u) << "a round trip counts once";
  // 5, 2.5, 1.25, 0.625, 0.3125: then 0.3125 packets of 1000 bytes leave in 1 ms.
  for (int i = 0; i < 5; ++i) acknowledge(milliseconds(1));
  EXPECT_EQ(controller.window(), 1u);
  EXPECT_NEAR(controller.mbps(), 2.5, 1e-9);
  ASSERT_TRUE(controller.may_send(now));
  controller.sent(1000);
  controller.sent(1000);
  EXPECT_FALSE(controller.may_send(now));
  EXPECT_EQ(controller.deadline(), now + microseconds(6400) - microseconds(48));
}

TEST_F(Controller, UnderSwiftATimeoutCountsOnceAndWhatWasBeforeThePathDoesNot) {
  path = {.samples = 7, .round_trip = milliseconds(1), .timeouts = 3};
  choose(CongestionControl::kSwift, {{"base_us", 20}});
  controller.observe(path, now);
  EXPECT_EQ(controller.window(), 1u);
  EXPECT_EQ(controller.mbps(), 0);
  for (int i = 0; i < 2; ++i) {
    path.timeouts = 4;
    now = now + milliseconds(5);
    controller.observe(path, now);
    EXPECT_NE(controller.mbps(), 0) << "half a packet";
  }
  EXPECT_EQ(controller.mbps(), 0.5 * kMtu * 8000) << "no round trip is known: one of 1 ns counts";
}

TEST_F(Controller, UnderSwiftCnpsAreCountedOnly) {
  choose(CongestionControl::kSwift);
  controller.cnp(0, now);
  EXPECT_EQ(controller.cnps(), 1u);
  EXPECT_EQ(controller.window(), 1u);
  EXPECT_EQ(controller.mbps(), 0);
}

TEST_F(Controller, WithoutMemoryTheAlgorithmBeforeGoesOn) {
  choose(CongestionControl::kDcqcn, {{"line_mbps", 200}});
  controller.cnp(0, now);
  {
    const testing::RefusedMemory refused;
    EXPECT_FALSE(controller.choose({.control = CongestionControl::kSwift}));
  }
  EXPECT_EQ(controller.mbps(), 100);
  EXPECT_TRUE(controller.choose({}));
  EXPECT_FALSE(controller.limits());
}

/// Whatever comes, in whatever order, there is something that may leave at some time.
TEST_F(Controller, EachAlgorithmOfTheTableKeepsToTheContract) {
  for (size_t row = 0; row < kCongestionAlgorithmCount; ++row) {
    Random random(row + 1);
    choose(static_cast<CongestionControl>(row));
    for (int i = 0; i < 20'000; ++i) {
      now = now + nanoseconds(static_cast<int64_t>(random.below(100'000)));
      if (random.below(10) == 0) controller.cnp(static_cast<uint32_t>(random.below(2)) * 1000, now);
      if (random.below(2000) == 0) controller.path_changed(kMtu, path);
      if (random.below(1000) == 0) controller.shift(microseconds(5)), now = now + microseconds(5);
      if (!controller.limits()) continue;
      if (random.below(10) == 0) path.timeouts += 1;
      path.samples += random.below(2) == 0 ? 0 : 1;
      path.round_trip = nanoseconds(1 + static_cast<int64_t>(random.below(10'000'000)));
      controller.observe(path, now);
      ASSERT_GE(controller.window(), 1u);
      ASSERT_TRUE(std::isfinite(controller.mbps()) && controller.mbps() >= 0);
      controller.window_filled();
      if (!controller.may_send(now)) {
        ASSERT_GT(controller.deadline(), now);
        ASSERT_NE(controller.deadline(), kNever);
        now = controller.deadline();
        ASSERT_TRUE(controller.may_send(now)) << "the rate may only have grown";
      }
      ASSERT_EQ(controller.deadline(), kNever);
      if (controller.limits()) controller.sent(kMtu);
    }
    EXPECT_EQ(row_of(static_cast<CongestionControl>(row)).make == nullptr, row == 0);
  }
}

TEST(NotificationPoint, OwesOneCnpForAllMarksOfAnInterval) {
  constexpr Duration kInterval = microseconds(50);
  NotificationPoint point;
  EXPECT_FALSE(point.owes_cnp());
  point.marked(kInterval, kStart);
  ASSERT_TRUE(point.owes_cnp());
  point.cnp_sent(kInterval, kStart);
  point.marked(kInterval, kStart + kInterval - nanoseconds(1));
  EXPECT_FALSE(point.owes_cnp());
  point.shift(seconds(1));
  point.marked(kInterval, kStart + seconds(1) + kInterval - nanoseconds(1));
  EXPECT_FALSE(point.owes_cnp());
  point.marked(kInterval, kStart + seconds(1) + kInterval);
  EXPECT_TRUE(point.owes_cnp());
  point.reset();
  point.marked({}, kStart);
  EXPECT_FALSE(point.owes_cnp()) << "no interval, no CNPs";
}

}  // namespace
}  // namespace uroce::qp
