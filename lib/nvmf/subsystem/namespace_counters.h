#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/counters/latencies.h"
#include "base/values/time.h"

namespace uroce::nvmf {

/// What is counted of a namespace.
enum class NamespaceCounter : uint8_t {
  kReads,   // commands that were successful: Read and Compare, as in the SMART log
  kWrites,  // likewise: Write
  kBytesRead,
  kBytesWritten,
  kErrors,  // I/O commands that ended otherwise; not those that were aborted with their queue
  kCount
};
inline constexpr size_t kNamespaceCounters = static_cast<size_t>(NamespaceCounter::kCount);

/// One queue's part of a namespace: written by its thread, read (possibly a little late) by any.
class alignas(64) NamespaceCounters {
 public:
  static constexpr uint32_t kCommandsPerMeasured = 16;

  void add(NamespaceCounter counter, uint64_t n = 1) {
    uint64_t& value = values_[static_cast<size_t>(counter)];
    // A plain load and a relaxed store: there is one writer; readers only need a whole value.
    __atomic_store_n(&value, value + n, __ATOMIC_RELAXED);
  }
  /// Whether the time of a command that was successful is to be measured.
  [[nodiscard]] bool measures() { return commands_++ % kCommandsPerMeasured == 0; }
  void record(bool read, Duration time) { (read ? reads_ : writes_).record(time.ns); }

  [[nodiscard]] uint64_t read(NamespaceCounter counter) const {
    return __atomic_load_n(&values_[static_cast<size_t>(counter)], __ATOMIC_RELAXED);
  }
  [[nodiscard]] const LatencyHistogram& reads() const { return reads_; }
  [[nodiscard]] const LatencyHistogram& writes() const { return writes_; }

 private:
  std::array<uint64_t, kNamespaceCounters> values_{};
  uint32_t commands_ = 0;
  LatencyHistogram reads_;
  LatencyHistogram writes_;
};

/// What a namespace's queues did together, those that are gone included.
struct NamespaceTotals {
  struct Latency {
    std::array<uint64_t, LatencyHistogram::kBuckets> buckets{};
    uint64_t sum_ns = 0;
    void add(const LatencyHistogram& histogram);
  };
  std::array<uint64_t, kNamespaceCounters> counts{};
  Latency reads;
  Latency writes;

  void add(const NamespaceCounters& counters);
  [[nodiscard]] uint64_t of(NamespaceCounter counter) const { return counts[static_cast<size_t>(counter)]; }
};

/// The counters of all queues of a namespace. Any thread.
class NamespaceStatistics {
 public:
  /// A queue's own, as long as it keeps them.
  std::shared_ptr<NamespaceCounters> open();
  [[nodiscard]] NamespaceTotals totals();

 private:
  void add_past();  // under the lock

  std::mutex mutex_;
  std::vector<std::shared_ptr<NamespaceCounters>> open_;
  NamespaceTotals past_;
};

}  // namespace uroce::nvmf
