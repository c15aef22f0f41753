#include "qp/congestion/dcqcn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace uroce::qp {
namespace {

constexpr Instant kStart{1'000'000'000};
constexpr uint32_t kMtu = 4096;
constexpr Duration kStage = Dcqcn::kIncreasePeriod;

class DcqcnTest : public ::testing::Test {
 protected:
  DcqcnTest() { dcqcn.path_changed(kMtu); }

  void cnp(Instant now) { dcqcn.cnp(0, now); }
  void send(uint64_t bytes) {
    for (constexpr uint32_t kMost = 1u << 20; bytes > 0; bytes -= std::min<uint64_t>(bytes, kMost))
      dcqcn.sent(static_cast<uint32_t>(std::min<uint64_t>(bytes, kMost)));
  }

  Dcqcn dcqcn{1000};
};

TEST_F(DcqcnTest, TheFirstCnpHalvesTheRateOfTheLine) {
  EXPECT_FALSE(dcqcn.limits());
  cnp(kStart);
  EXPECT_TRUE(dcqcn.limits());
  EXPECT_EQ(dcqcn.mbps(), 500);
  EXPECT_EQ(dcqcn.target(), 1000);
  EXPECT_NEAR(dcqcn.alpha(), 1, 1e-12);
  EXPECT_EQ(dcqcn.window(), UINT32_MAX);
}

TEST_F(DcqcnTest, FastRecoveryHalvesTheWayToTheTarget) {
  cnp(kStart);
  for (const double rate : {750.0, 875.0, 937.5, 968.75, 984.375}) {
    const auto stage = static_cast<int64_t>(std::lround(std::log2(500 / (1000 - rate))));
    dcqcn.advance(kStart + kStage * stage - nanoseconds(1));
    EXPECT_LT(dcqcn.mbps(), rate);
    dcqcn.advance(kStart + kStage * stage);
    EXPECT_EQ(dcqcn.mbps(), rate);
    EXPECT_EQ(dcqcn.target(), 1000);
  }
}

/// Two cuts, so that the target is below the line: 1000, 500, 250 with a target of 500.
class DcqcnCutTwice : public DcqcnTest {
 protected:
  DcqcnCutTwice() {
    cnp(kStart);
    cnp(now);
    EXPECT_EQ(dcqcn.mbps(), 250);
    EXPECT_EQ(dcqcn.target(), 500);
  }

  Instant now = kStart + microseconds(50);
};

TEST_F(DcqcnCutTwice, BehindFastRecoveryTheTargetGrowsByRai) {
  now = now + kStage * 5;
  dcqcn.advance(now);
  EXPECT_EQ(dcqcn.target(), 500);
  const double before = dcqcn.mbps();
  dcqcn.advance(now + kStage);
  EXPECT_EQ(dcqcn.target(), 540);
  EXPECT_EQ(dcqcn.mbps(), (before + 540) / 2);
}

TEST_F(DcqcnCutTwice, WhenTimeAndBytesArePastItTheTargetGrowsByRhai) {
  dcqcn.advance(now + kStage * 6);
  EXPECT_EQ(dcqcn.target(), 540);
  send(5 * Dcqcn::kIncreaseBytes);
  EXPECT_EQ(dcqcn.target(), 540 + 5 * 40) << "time alone is past it";
  send(Dcqcn::kIncreaseBytes - 1);
  EXPECT_EQ(dcqcn.target(), 740);
  send(1);
  EXPECT_EQ(dcqcn.target(), 1000) << "740 + 400, but not more than the line has";
}

TEST_F(DcqcnTest, AlphaFallsWithoutCnpsAndRisesWithThem) {
  cnp(kStart);
  // 100 periods later alpha is (255/256)^100, then the cut is of that, and alpha rises by g of the rest.
  const double alpha = std::pow(255.0 / 256, 100);
  const Instant later = kStart + Dcqcn::kAlphaPeriod * 100;
  dcqcn.advance(later);
  EXPECT_FALSE(dcqcn.limits()) << "the line's rate is back";
  EXPECT_EQ(dcqcn.mbps(), 0);
  cnp(later);
  EXPECT_NEAR(dcqcn.mbps(), 1000 * (1 - alpha / 2), 1e-6);
  EXPECT_NEAR(dcqcn.alpha(), alpha * 255 / 256 + 1.0 / 256, 1e-9);
}

TEST_F(DcqcnTest, AFloodOfCnpsEndsAtTheLeastRate) {
  for (int64_t i = 0; i < 1'000'000; ++i) {
    cnp(kStart + nanoseconds(i * 100));
    ASSERT_GE(dcqcn.mbps(), 10);
    ASSERT_LE(dcqcn.alpha(), 1);
  }
  EXPECT_EQ(dcqcn.mbps(), 10);
  const Instant end = kStart + nanoseconds(100'000'000);
  dcqcn.advance(end + seconds(1));
  EXPECT_FALSE(dcqcn.limits()) << "it is over when the CNPs are";
}

TEST_F(DcqcnTest, CnpsWithin4usAreOne) {
  cnp(kStart);
  cnp(kStart + microseconds(4) - nanoseconds(1));
  EXPECT_EQ(dcqcn.mbps(), 500);
  cnp(kStart + microseconds(4));
  EXPECT_EQ(dcqcn.mbps(), 250);
}

TEST_F(DcqcnTest, AnotherPathBeginsWithoutALimit) {
  cnp(kStart);
  dcqcn.path_changed(kMtu);
  EXPECT_FALSE(dcqcn.limits());
  cnp(kStart + microseconds(1));
  EXPECT_EQ(dcqcn.mbps(), 500) << "of the line, not of the old rate";
}

TEST_F(DcqcnTest, TheSpeedOfThePortIsThatOfTheLineUnlessOneIsConfigured) {
  dcqcn.cnp(400, kStart);
  EXPECT_EQ(dcqcn.mbps(), 500);
  Dcqcn of_port{0};
  of_port.path_changed(kMtu);
  of_port.cnp(400, kStart);
  EXPECT_EQ(of_port.mbps(), 200);
  Dcqcn of_none{0};
  of_none.path_changed(kMtu);
  of_none.cnp(0, kStart);
  EXPECT_EQ(of_none.mbps(), 50'000);
}

}  // namespace
}  // namespace uroce::qp
