#include "client/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace uroce::perf {
namespace {

TEST(Histogram, KnowsNothingOfNothing) {
  const client::Histogram histogram;
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.percentile(50), 0u);
  EXPECT_EQ(histogram.min(), 0u);
}

TEST(Histogram, IsExactForOneSample) {
  for (const uint64_t value :
       {uint64_t{0}, uint64_t{1}, uint64_t{127}, uint64_t{128}, uint64_t{123456789}, UINT64_MAX}) {
    client::Histogram histogram;
    histogram.record(value);
    EXPECT_EQ(histogram.percentile(0), value);
    EXPECT_EQ(histogram.percentile(50), value);
    EXPECT_EQ(histogram.percentile(100), value);
    EXPECT_EQ(histogram.min(), value);
    EXPECT_EQ(histogram.max(), value);
  }
}

TEST(Histogram, IsExactForSmallValues) {
  client::Histogram histogram;
  for (uint64_t value = 1; value <= 100; ++value) histogram.record(value);
  EXPECT_EQ(histogram.percentile(1), 1u);
  EXPECT_EQ(histogram.percentile(50), 50u);
  EXPECT_EQ(histogram.percentile(99), 99u);
  EXPECT_EQ(histogram.percentile(99.9), 100u);
}

TEST(Histogram, FindsTheOneOutlier) {
  client::Histogram histogram;
  for (int i = 0; i < 999; ++i) histogram.record(10);
  histogram.record(1'000'000);
  EXPECT_EQ(histogram.percentile(99.9), 10u);
  EXPECT_EQ(histogram.percentile(99.91), 1'000'000u);
}

TEST(Histogram, StaysWithinOneSixtyFourthOfSortedSamples) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::vector<uint64_t> samples;
  client::Histogram histogram;
  for (int i = 0; i < 20000; ++i) {
    // All magnitudes: a random number of random bits.
    const uint64_t value = random() >> (random() % 60);
    samples.push_back(value);
    histogram.record(value);
  }
  std::sort(samples.begin(), samples.end());
  for (const double percent : {0.1, 1.0, 25.0, 50.0, 75.0, 99.0, 99.9, 100.0}) {
    const auto rank = static_cast<size_t>(std::ceil(static_cast<double>(samples.size()) * percent / 100));
    const auto exact = static_cast<double>(samples[rank - 1]);
    const auto found = static_cast<double>(histogram.percentile(percent));
    EXPECT_GE(found, exact) << percent;
    EXPECT_LE(found, exact * (1 + 1.0 / 64)) << percent;
  }
}

TEST(Histogram, ForgetsWhenCleared) {
  client::Histogram histogram;
  histogram.record(5);
  histogram.clear();
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.max(), 0u);
}

}  // namespace
}  // namespace uroce::perf
