#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/counters/hdr_buckets.h"

namespace uroce::client {

/// Counts of durations in buckets whose width is at most 1/64 of their value: no allocation and the same few
/// instructions per sample however many there are. One thread.
class Histogram {
 public:
  void record(uint64_t nanoseconds) { record(nanoseconds, 1); }
  /// A duration that was seen `times` times.
  void record(uint64_t nanoseconds, uint64_t times);
  void add(const Histogram& other);
  void clear() { *this = Histogram{}; }

  [[nodiscard]] uint64_t count() const { return count_; }
  [[nodiscard]] uint64_t min() const { return count_ == 0 ? 0 : min_; }
  [[nodiscard]] uint64_t max() const { return max_; }

  /// The smallest recorded value that at least `percent` of the samples do not exceed, to within 1/64 (never
  /// below min() nor above max()); 0 when nothing was recorded.
  [[nodiscard]] uint64_t percentile(double percent) const;
  [[nodiscard]] double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

  /// `function(highest value of the bucket, samples in it)` for each bucket that has any, in ascending order;
  /// a value given to record() again falls into the same bucket.
  template <typename Function>
  void for_each(const Function& function) const {
    for (size_t bucket = 0; bucket < kBuckets; ++bucket)
      if (buckets_[bucket] != 0) function(Buckets::highest_in(bucket), buckets_[bucket]);
  }

 private:
  using Buckets = HdrBuckets<6>;
  static constexpr size_t kBuckets = Buckets::count(64);

  std::array<uint64_t, kBuckets> buckets_{};
  uint64_t count_ = 0;
  double sum_ = 0;
  uint64_t min_ = UINT64_MAX;
  uint64_t max_ = 0;
};

}  // namespace uroce::client
