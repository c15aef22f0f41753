#include "client/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace uroce::client {

size_t Histogram::bucket_of(uint64_t value) {
  const unsigned width = static_cast<unsigned>(std::bit_width(value));
  if (width <= kSubBits + 1) return value;
  const unsigned shift = width - kSubBits - 1;
  return (static_cast<size_t>(shift) << kSubBits) + (value >> shift);
}

uint64_t Histogram::highest_in(size_t bucket) {
  if (bucket < size_t{2} << kSubBits) return bucket;
  const size_t shift = (bucket >> kSubBits) - 1;
  const uint64_t leading = bucket - (shift << kSubBits);
  return (leading << shift) + ((uint64_t{1} << shift) - 1);
}

void Histogram::record(uint64_t nanoseconds, uint64_t times) {
  if (times == 0) return;
  buckets_[bucket_of(nanoseconds)] += times;
  count_ += times;
  sum_ += static_cast<double>(nanoseconds) * static_cast<double>(times);
  min_ = std::min(min_, nanoseconds);
  max_ = std::max(max_, nanoseconds);
}

void Histogram::add(const Histogram& other) {
  for (size_t bucket = 0; bucket < kBuckets; ++bucket) buckets_[bucket] += other.buckets_[bucket];
  count_ += other.count_;
  sum_ += other.sum_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

uint64_t Histogram::percentile(double percent) const {
  if (count_ == 0) return 0;
  const double rank = std::ceil(static_cast<double>(count_) * std::clamp(percent, 0.0, 100.0) / 100.0);
  const uint64_t wanted = std::clamp<uint64_t>(static_cast<uint64_t>(rank), 1, count_);
  uint64_t seen = 0;
  for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
    seen += buckets_[bucket];
    if (seen >= wanted) return std::clamp(highest_in(bucket), min_, max_);
  }
  return max_;
}

}  // namespace uroce::client
