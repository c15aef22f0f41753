#include "nvmf/subsystem/namespace_counters.h"

namespace uroce::nvmf {

void NamespaceTotals::Latency::add(const LatencyHistogram& histogram) {
  for (size_t i = 0; i < buckets.size(); ++i) buckets[i] += histogram.in_bucket(i);
  sum_ns += histogram.sum();
}

void NamespaceTotals::add(const NamespaceCounters& counters) {
  for (size_t i = 0; i < counts.size(); ++i) counts[i] += counters.read(static_cast<NamespaceCounter>(i));
  reads.add(counters.reads());
  writes.add(counters.writes());
}

std::shared_ptr<NamespaceCounters> NamespaceStatistics::open() {
  auto counters = std::make_shared<NamespaceCounters>();
  const std::lock_guard guard(mutex_);
  add_past();
  open_.push_back(counters);
  return counters;
}

void NamespaceStatistics::add_past() {
  std::erase_if(open_, [this](const std::shared_ptr<NamespaceCounters>& counters) {
    if (counters.use_count() > 1) return false;
    past_.add(*counters);
    return true;
  });
}

NamespaceTotals NamespaceStatistics::totals() {
  const std::lock_guard guard(mutex_);
  add_past();
  NamespaceTotals totals = past_;
  for (const auto& counters : open_) totals.add(*counters);
  return totals;
}

}  // namespace uroce::nvmf
