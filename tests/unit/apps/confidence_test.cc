// The arithmetic of comparisons, against the tables of Student's t and against chance.
#include "apps/perf/report/confidence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace uroce::perf {
namespace {

TEST(StudentT, IsThatOfTheTables) {
  EXPECT_NEAR(student_t(1), 12.706, 0.001);
  EXPECT_NEAR(student_t(10), 2.228, 0.001);
  EXPECT_NEAR(student_t(20), 2.086, 0.002);
  EXPECT_NEAR(student_t(30), 2.042, 0.003);
  EXPECT_NEAR(student_t(60), 2.000, 0.003);
  EXPECT_NEAR(student_t(1e9), 1.960, 0.001);
  for (double degrees = 1; degrees < 100; degrees += 0.25)
    EXPECT_GE(student_t(degrees), student_t(degrees + 0.25) - 1e-3) << degrees;
}

TEST(Change, OfTheSameIsNone) {
  const std::vector<double> samples = {5, 5, 5};
  const Change change = change_of(samples, samples);
  EXPECT_EQ(change.percent, 0);
  EXPECT_FALSE(change.seen());
}

TEST(Change, IsSeenWhenItIsLargerThanTheNoise) {
  const Change up = change_of(std::vector<double>{10, 11, 10, 11}, std::vector<double>{20, 22, 21, 22});
  EXPECT_NEAR(up.percent, 102.4, 0.1);
  EXPECT_TRUE(up.seen());
  EXPECT_GT(up.low, 80);
  EXPECT_LT(up.high, 125);
  EXPECT_FALSE(change_of(std::vector<double>{1, 9, 2, 7}, std::vector<double>{2, 8, 3, 7}).seen());
}

TEST(Change, OfPureNoiseIsSeenInAboutOneOfTwentyCases) {
  std::mt19937_64 random(11);
  const auto sample = [&] {
    double sum = 0;  // of twelve: nearly normal, of variance 1
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(random() >> 11) * 0x1p-53;
    return 100 + sum;
  };
  constexpr int kCases = 4000;
  int seen = 0;
  for (int i = 0; i < kCases; ++i) {
    std::vector<double> before(20), after(20);
    for (double& one : before) one = sample();
    for (double& one : after) one = sample();
    seen += change_of(before, after).seen() ? 1 : 0;
  }
  EXPECT_NEAR(seen, kCases * 0.05, kCases * 0.015);
}

}  // namespace
}  // namespace uroce::perf
