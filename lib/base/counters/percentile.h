#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace uroce {

/// The highest value of the bucket (HdrBuckets) that `percent` of the samples in all buckets do not exceed; 0
/// without any.
template <typename Buckets, size_t kCount>
uint64_t percentile_in(const std::array<uint64_t, kCount>& buckets, uint64_t samples, double percent) {
  if (samples == 0) return 0;
  const double rank = std::ceil(static_cast<double>(samples) * std::clamp(percent, 0.0, 100.0) / 100);
  const uint64_t wanted = std::clamp<uint64_t>(static_cast<uint64_t>(rank), 1, samples);
  uint64_t seen = 0;
  for (size_t bucket = 0; bucket < kCount; ++bucket) {
    seen += buckets[bucket];
    if (seen >= wanted) return Buckets::highest_in(bucket);
  }
  return 0;
}

}  // namespace uroce
