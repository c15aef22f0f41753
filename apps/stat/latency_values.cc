#include "apps/stat/latency_values.h"

#include "base/counters/percentile.h"

namespace uroce::statistics {

using Buckets = LatencyHistogram::Buckets;

void LatencyValues::add(const LatencyHistogram& histogram) {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const uint64_t count = histogram.in_bucket(i);
    buckets_[i] += count;
    samples_ += count;
  }
  sum_ns_ += histogram.sum();
}

void LatencyValues::add(const Counts& buckets, uint64_t sum_ns) {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    buckets_[i] += buckets[i];
    samples_ += buckets[i];
  }
  sum_ns_ += sum_ns;
}

uint64_t LatencyValues::percentile_ns(double percent) const {
  return percentile_in<Buckets>(buckets_, samples_, percent);
}

uint64_t LatencyValues::samples_up_to(uint64_t ns) const {
  uint64_t seen = 0;
  for (size_t i = 0; i < buckets_.size() && Buckets::highest_in(i) <= ns; ++i) seen += buckets_[i];
  return seen;
}

}  // namespace uroce::statistics
