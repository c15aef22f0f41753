#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/counters/hdr_buckets.h"

namespace uroce {

/// Every latency that pollers measure: name, stage, operation, one of how many is measured, and help.
// clang-format off
#define UROCE_LATENCIES(X)                                                                                          \
  X(kPostToWire, "post_to_wire", "any", 61, "From a post that turned the poller until the port had its packets")     \
  X(kSendToAck, "wire_to_ack", "send", 16, "From a packet of a SEND until its acknowledgement")                      \
  X(kWriteToAck, "wire_to_ack", "write", 16, "From a packet of a WRITE until its acknowledgement")                   \
  X(kReadToResponse, "wire_to_ack", "read", 16, "From the request of a READ until its last response")                \
  X(kAtomicToResponse, "wire_to_ack", "atomic", 16, "From an atomic until its response")                             \
  X(kFlushToResponse, "wire_to_ack", "flush", 16, "From a FLUSH until its response")                                 \
  X(kReceiveToCompletion, "receive_to_completion", "any", 61, "From the receipt of packets until completions that they brought were visible")
// clang-format on

enum class Latency : uint8_t {
#define X(name, stage, operation, of, help) name,
  UROCE_LATENCIES(X)
#undef X
      kCount
};
inline constexpr size_t kLatencyCount = static_cast<size_t>(Latency::kCount);

struct LatencyTexts {
  std::string_view stage;
  std::string_view operation;
  uint32_t sampled_of;  // one of so many is measured
  std::string_view help;
};
inline constexpr std::array<LatencyTexts, kLatencyCount> kLatencyTexts{{
#define X(name, stage, operation, of, help) {stage, operation, of, help},
    UROCE_LATENCIES(X)
#undef X
}};
constexpr const LatencyTexts& texts_of(Latency latency) {
  return kLatencyTexts[static_cast<size_t>(latency)];
}

/// One poller's: written by the thread that turns the poller, read (possibly a little late) by any.
class alignas(64) LatencyHistogram {
 public:
  using Buckets = HdrBuckets<4>;
  static constexpr unsigned kValueBits = 40;  // 18 minutes in ns; what is longer counts as that
  static constexpr size_t kBuckets = Buckets::count(kValueBits);

  void record(int64_t ns) {
    const uint64_t value =
        std::min<uint64_t>(static_cast<uint64_t>(std::max<int64_t>(ns, 0)), (uint64_t{1} << kValueBits) - 1);
    add(buckets_[Buckets::bucket_of(value)], 1);
    add(sum_, value);
  }

  [[nodiscard]] uint64_t in_bucket(size_t bucket) const {
    return __atomic_load_n(&buckets_[bucket], __ATOMIC_RELAXED);
  }
  [[nodiscard]] uint64_t sum() const { return __atomic_load_n(&sum_, __ATOMIC_RELAXED); }

 private:
  /// A plain load and a relaxed store, as in Counters: there is one writer; readers only need a whole value.
  static void add(uint64_t& value, uint64_t n) { __atomic_store_n(&value, value + n, __ATOMIC_RELAXED); }

  std::array<uint64_t, kBuckets> buckets_{};
  uint64_t sum_ = 0;
};

class Latencies {
 public:
  [[nodiscard]] LatencyHistogram& of(Latency latency) { return all_[static_cast<size_t>(latency)]; }
  [[nodiscard]] const LatencyHistogram& of(Latency latency) const {
    return all_[static_cast<size_t>(latency)];
  }

 private:
  std::array<LatencyHistogram, kLatencyCount> all_{};
};

}  // namespace uroce
