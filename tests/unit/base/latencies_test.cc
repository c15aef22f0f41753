#include "base/counters/latencies.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/counters/counter_texts.h"

namespace uroce {
namespace {

TEST(HdrBuckets, EachValueLiesInItsBucketWhichIsAsNarrowAsItSays) {
  using Buckets = HdrBuckets<4>;
  size_t last = 0;
  for (uint64_t value = 0; value < 1'000'000; ++value) {
    const size_t bucket = Buckets::bucket_of(value);
    ASSERT_TRUE(bucket == last || bucket == last + 1) << value;
    ASSERT_GE(Buckets::highest_in(bucket), value);
    ASSERT_LE(Buckets::highest_in(bucket) - value, value / 16);
    if (bucket != last) {
      ASSERT_EQ(Buckets::highest_in(last), value - 1);
    }
    last = bucket;
  }
  EXPECT_EQ(Buckets::highest_in(Buckets::bucket_of(UINT64_MAX)), UINT64_MAX);
  EXPECT_EQ(Buckets::bucket_of(UINT64_MAX), Buckets::count(64) - 1);
}

TEST(LatencyHistogram, TakesWhatIsTooShortOrTooLongAsTheShortestAndTheLongest) {
  const auto histogram = std::make_unique<LatencyHistogram>();
  histogram->record(-5);
  histogram->record(INT64_MAX);
  EXPECT_EQ(histogram->in_bucket(0), 1u);
  EXPECT_EQ(histogram->in_bucket(LatencyHistogram::kBuckets - 1), 1u);
  EXPECT_EQ(histogram->sum(), (uint64_t{1} << LatencyHistogram::kValueBits) - 1);
}

TEST(Counters, HaveALabelOfTheirOwnAUnitAndAHelpText) {
  for (size_t i = 0; i < kCounterCount; ++i) {
    const CounterTexts& texts = texts_of(static_cast<Counter>(i));
    EXPECT_FALSE(texts.unit.empty());
    EXPECT_FALSE(texts.help.empty() || texts.help.ends_with('.')) << texts.label;
    for (size_t other = 0; other < i; ++other)
      EXPECT_NE(texts.label, texts_of(static_cast<Counter>(other)).label);
  }
}

}  // namespace
}  // namespace uroce
