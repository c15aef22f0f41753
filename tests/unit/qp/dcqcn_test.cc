#include "qp/congestion/dcqcn.h"

#include <gtest/gtest.h>

#include <cmath>

#include "qp/congestion/rate_limit.h"

namespace uroce::qp {
namespace {

constexpr Instant kStart{1'000'000'000};
constexpr DcqcnOptions kOptions{.line_mbps = 1000, .least_mbps = 10};

TEST(Dcqcn, TheFirstCnpHalvesTheRateOfTheLine) {
  Dcqcn dcqcn;
  EXPECT_FALSE(dcqcn.limits());
  dcqcn.cnp(kOptions, kStart);
  EXPECT_TRUE(dcqcn.limits());
  EXPECT_EQ(dcqcn.rate(), 500);
  EXPECT_EQ(dcqcn.target(), 1000);
  EXPECT_EQ(dcqcn.alpha(), 1);
}

TEST(Dcqcn, FastRecoveryHalvesTheWayToTheTarget) {
  Dcqcn dcqcn;
  dcqcn.cnp(kOptions, kStart);
  for (const double rate : {750.0, 875.0, 937.5, 968.75, 984.375}) {
    const auto stage = static_cast<int64_t>(std::lround(std::log2(500 / (1000 - rate))));
    dcqcn.advance(kOptions, kStart + microseconds(55 * stage) - nanoseconds(1));
    EXPECT_LT(dcqcn.rate(), rate);
    dcqcn.advance(kOptions, kStart + microseconds(55 * stage));
    EXPECT_EQ(dcqcn.rate(), rate);
    EXPECT_EQ(dcqcn.target(), 1000);
  }
}

/// Two cuts, so that the target is below the line: 1000, 500, 250 with a target of 500.
Dcqcn cut_twice(Instant& now) {
  Dcqcn dcqcn;
  dcqcn.cnp(kOptions, now);
  now = now + microseconds(50);
  dcqcn.cnp(kOptions, now);
  EXPECT_EQ(dcqcn.rate(), 250);
  EXPECT_EQ(dcqcn.target(), 500);
  return dcqcn;
}

TEST(Dcqcn, BehindFastRecoveryTheTargetGrowsByRai) {
  Instant now = kStart;
  Dcqcn dcqcn = cut_twice(now);
  now = now + microseconds(5 * 55);
  dcqcn.advance(kOptions, now);
  EXPECT_EQ(dcqcn.target(), 500);
  const double before = dcqcn.rate();
  dcqcn.advance(kOptions, now + microseconds(55));
  EXPECT_EQ(dcqcn.target(), 540);
  EXPECT_EQ(dcqcn.rate(), (before + 540) / 2);
}

TEST(Dcqcn, WhenTimeAndBytesArePastItTheTargetGrowsByRhai) {
  Instant now = kStart;
  Dcqcn dcqcn = cut_twice(now);
  dcqcn.advance(kOptions, now + microseconds(6 * 55));
  EXPECT_EQ(dcqcn.target(), 540);
  constexpr uint64_t kStage = 10240 << 10;
  dcqcn.sent(kOptions, 5 * kStage);
  EXPECT_EQ(dcqcn.target(), 540 + 5 * 40) << "time alone is past it";
  dcqcn.sent(kOptions, kStage - 1);
  EXPECT_EQ(dcqcn.target(), 740);
  dcqcn.sent(kOptions, 1);
  EXPECT_EQ(dcqcn.target(), 1000) << "740 + 400, but not more than the line has";
}

TEST(Dcqcn, AlphaFallsWithoutCnpsAndRisesWithThem) {
  Dcqcn dcqcn;
  dcqcn.cnp(kOptions, kStart);
  // 100 periods later alpha is (255/256)^100, then the cut is of that, and alpha rises by g of the rest.
  const double alpha = std::pow(255.0 / 256, 100);
  const Instant later = kStart + microseconds(55 * 100);
  dcqcn.advance(kOptions, later);
  EXPECT_FALSE(dcqcn.limits()) << "the line's rate is back";
  dcqcn.cnp(kOptions, later);
  EXPECT_NEAR(dcqcn.rate(), 1000 * (1 - alpha / 2), 1e-6);
  EXPECT_NEAR(dcqcn.alpha(), alpha * 255 / 256 + 1.0 / 256, 1e-9);
}

TEST(Dcqcn, AFloodOfCnpsEndsAtTheLeastRate) {
  Dcqcn dcqcn;
  for (int64_t i = 0; i < 1'000'000; ++i) {
    dcqcn.cnp(kOptions, kStart + nanoseconds(i * 100));
    ASSERT_GE(dcqcn.rate(), 10);
    ASSERT_LE(dcqcn.alpha(), 1);
  }
  EXPECT_EQ(dcqcn.rate(), 10);
  const Instant end = kStart + nanoseconds(100'000'000);
  dcqcn.advance(kOptions, end + seconds(1));
  EXPECT_FALSE(dcqcn.limits()) << "it is over when the CNPs are";
}

TEST(Dcqcn, CnpsWithin4usAreOne) {
  Dcqcn dcqcn;
  dcqcn.cnp(kOptions, kStart);
  dcqcn.cnp(kOptions, kStart + microseconds(4) - nanoseconds(1));
  EXPECT_EQ(dcqcn.rate(), 500);
  dcqcn.cnp(kOptions, kStart + microseconds(4));
  EXPECT_EQ(dcqcn.rate(), 250);
}

class Limit : public ::testing::Test {
 protected:
  // The rate stays what the first CNP made of it: 100 Mbit/s, 80 ns for a byte.
  CongestionOptions options{.control = CongestionControl::kDcqcn,
                            .dcqcn = {.line_mbps = 200, .increase_us = 1'000'000}};
  RateLimit limit;
};

TEST_F(Limit, APacketWaitsForThoseBeforeIt) {
  EXPECT_TRUE(limit.may_send(options, kStart));
  limit.cnp(options, kStart);
  ASSERT_TRUE(limit.may_send(options, kStart));
  limit.sent(options, 1000);
  EXPECT_FALSE(limit.may_send(options, kStart));
  EXPECT_EQ(limit.deadline(), kStart + microseconds(80));
  EXPECT_FALSE(limit.may_send(options, kStart + microseconds(80) - nanoseconds(1)));
  EXPECT_TRUE(limit.may_send(options, kStart + microseconds(80)));
  EXPECT_EQ(limit.deadline(), kNever);
}

TEST_F(Limit, WhatWasNotSentInTimeIsSentLaterWithin48us) {
  limit.cnp(options, kStart);
  const Instant late = kStart + milliseconds(10);
  uint32_t packets = 0;
  for (; limit.may_send(options, late); ++packets) limit.sent(options, 100);
  EXPECT_EQ(packets, 7u) << "48 us are 6 packets of 8 us, and the one that is due";
}

TEST_F(Limit, OverAMillisecondTheRateIsKept) {
  limit.cnp(options, kStart);
  uint64_t bytes = 0;
  // Turns at odd times.
  for (Instant now = kStart; now < kStart + milliseconds(1); now = now + nanoseconds(7'777)) {
    for (; limit.may_send(options, now); bytes += 333) limit.sent(options, 333);
  }
  EXPECT_NEAR(static_cast<double>(bytes), 12'500, 350);
}

TEST_F(Limit, OfNoControlIsNone) {
  options.control = CongestionControl::kNone;
  limit.cnp(options, kStart);
  EXPECT_FALSE(limit.limits());
}

}  // namespace
}  // namespace uroce::qp
