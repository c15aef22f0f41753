#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/counters/latencies.h"

namespace uroce::statistics {

/// A histogram as it was read, or the sum of several.
class LatencyValues {
 public:
  using Counts = std::array<uint64_t, LatencyHistogram::kBuckets>;
  void add(const LatencyHistogram& histogram);
  void add(const Counts& buckets, uint64_t sum_ns);

  [[nodiscard]] uint64_t samples() const { return samples_; }
  [[nodiscard]] uint64_t sum_ns() const { return sum_ns_; }
  /// What at least `percent` of the samples do not exceed, to within 1/16; 0 without any.
  [[nodiscard]] uint64_t percentile_ns(double percent) const;
  /// Samples that do not exceed `ns`, to within 1/16.
  [[nodiscard]] uint64_t samples_up_to(uint64_t ns) const;

 private:
  Counts buckets_{};
  uint64_t samples_ = 0;
  uint64_t sum_ns_ = 0;
};

}  // namespace uroce::statistics
