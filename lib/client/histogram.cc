#include "client/histogram.h"

#include <algorithm>

#include "base/counters/percentile.h"

namespace uroce::client {

void Histogram::record(uint64_t nanoseconds, uint64_t times) {
  if (times == 0) return;
  buckets_[Buckets::bucket_of(nanoseconds)] += times;
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
  return std::clamp(percentile_in<Buckets>(buckets_, count_, percent), min(), max_);
}

}  // namespace uroce::client
