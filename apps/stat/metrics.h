#pragma once

#include <prometheus/metric_family.h>

#include <cstddef>
#include <vector>

namespace uroce::statistics {

/// What all processes show, as metrics: read anew for each scrape, so that nothing is kept here and a process
/// that has ended is gone with the next one.
class Metrics {
 public:
  /// Queue pairs have metrics of their own for so many of a process, those with most traffic.
  explicit Metrics(size_t queue_pairs_max) : queue_pairs_max_(queue_pairs_max) {}
  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const;

 private:
  size_t queue_pairs_max_;
};

}  // namespace uroce::statistics
