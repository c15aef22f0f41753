#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "apps/perf/plan.h"
#include "apps/perf/verbs_device.h"
#include "apps/perf/verbs_objects.h"

namespace uroce::perf {

/// What both ends agree on.
struct Traffic {
  Operation operation = Operation::kWrite;  // WRITE, READ or SEND
  uint32_t size = 64;
  uint64_t region_bytes = 512u << 20;  // of targets
  uint64_t mtu = 4096;

  static constexpr uint32_t kBatch = 16;  // messages in one post, of which the last is signalled
  static constexpr uint32_t kOutstanding = 64;

  [[nodiscard]] uint64_t stride() const { return (uint64_t{size} + 63) / 64 * 64; }
  [[nodiscard]] uint64_t targets() const { return region_bytes / stride() / kBatch * kBatch; }
};

/// One end of the traffic: a device, kOutstanding sources and a large region of targets, and a queue pair
/// whose posts and polls do as little as a program can. Every failure throws. One thread.
class RcEnd {
 public:
  RcEnd(const std::string& device, const Traffic& traffic);

  void connect(const RcEnd& peer);

  /// Posts the next kBatch messages to or from `peer`.
  void post(const RcEnd& peer);
  /// Posts receives for the next kBatch messages.
  void post_receives();
  /// Messages completed, or received, that the poll found.
  uint32_t poll();

  [[nodiscard]] std::span<std::byte> source(uint64_t message) {
    return {memory_.get() + message % Traffic::kOutstanding * traffic_.stride(), traffic_.size};
  }
  [[nodiscard]] std::span<std::byte> target(uint64_t message) {
    return {targets() + message % traffic_.targets() * traffic_.stride(), traffic_.size};
  }

 private:
  [[nodiscard]] std::byte* targets() const {
    return memory_.get() + Traffic::kOutstanding * traffic_.stride();
  }
  void modify(ibv_qp_attr attributes, int mask);
  /// Offset of the next batch of targets.
  uint64_t next_targets();

  const Traffic traffic_;
  VerbsDevice device_;
  Buffer memory_;
  ProtectionDomain domain_;
  MemoryRegion region_;
  CompletionQueue completions_;
  QueuePair queue_pair_;
  uint64_t sources_offset_ = 0;
  uint64_t targets_offset_ = 0;
  std::array<ibv_send_wr, Traffic::kBatch> sends_{};
  std::array<ibv_recv_wr, Traffic::kBatch> receives_{};
  std::array<ibv_sge, Traffic::kBatch> segments_{};
};

}  // namespace uroce::perf
