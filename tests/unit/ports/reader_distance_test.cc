// When frames are streamed: what is made of the times that lines take to come back.
#include "port/reader_distance.h"

#include <gtest/gtest.h>

namespace uroce::port {
namespace {

Duration claim_takes;
int measurements;

Duration fake_claim(std::byte*) {
  ++measurements;
  return claim_takes;
}

class ReaderDistanceTest : public ::testing::Test {
 protected:
  ReaderDistanceTest() { measurements = 0; }

  /// Observes frames until so many lines were timed, each for so long.
  void measure(int times, int64_t ns) {
    claim_takes = nanoseconds(ns);
    const int before = measurements;
    for (int frames = 0; measurements < before + times; ++frames) {
      ASSERT_LT(frames, times * 1000);
      reader.observe(&line);
    }
  }

  std::byte line{};
  ReaderDistance reader{fake_claim};
};

TEST_F(ReaderDistanceTest, WithoutAMeasureItIsNear) {
  ReaderDistance unmeasured;
  for (int i = 0; i < 10'000; ++i) unmeasured.observe(&line);
  EXPECT_FALSE(unmeasured.is_far());
}

TEST_F(ReaderDistanceTest, FewFramesPayForAMeasurement) {
  for (int i = 0; i < 10'000; ++i) reader.observe(&line);
  EXPECT_GT(measurements, 50);
  EXPECT_LT(measurements, 100);
}

TEST_F(ReaderDistanceTest, LinesOfAnotherCacheMakeItFarAndOfTheSameOneNearAgain) {
  measure(10, 150);
  EXPECT_TRUE(reader.is_far());
  measure(10, 45);
  EXPECT_FALSE(reader.is_far());
}

TEST_F(ReaderDistanceTest, ATimeInBetweenChangesNothing) {
  measure(50, 85);
  EXPECT_FALSE(reader.is_far());
  measure(10, 150);
  measure(50, 85);
  EXPECT_TRUE(reader.is_far());
}

TEST_F(ReaderDistanceTest, AnInterruptionIsNoDistance) {
  measure(10, 40);
  measure(1, 5'000'000);
  measure(4, 40);
  EXPECT_FALSE(reader.is_far());
}

TEST_F(ReaderDistanceTest, WhatCannotBeToldIsNear) {
  measure(10, 0);
  EXPECT_FALSE(reader.is_far());
}

}  // namespace
}  // namespace uroce::port
