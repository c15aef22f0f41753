#include "apps/stat/latency_values.h"

#include <algorithm>
#include <cmath>

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
  if (samples_ == 0) return 0;
  const double rank = std::ceil(static_cast<double>(samples_) * std::clamp(percent, 0.0, 100.0) / 100);
  const uint64_t wanted = std::clamp<uint64_t>(static_cast<uint64_t>(rank), 1, samples_);
  uint64_t seen = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen >= wanted) return Buckets::highest_in(i);
  }
  return 0;
}

uint64_t LatencyValues::samples_up_to(uint64_t ns) const {
  uint64_t seen = 0;
  for (size_t i = 0; i < buckets_.size() && Buckets::highest_in(i) <= ns; ++i) seen += buckets_[i];
  return seen;
}

}  // namespace uroce::statistics
