#pragma once

#include <cstdint>

#include "nvmf/rdma/intrusive_queue.h"

namespace uroce::nvmf {

struct RdmaSlot;

/// Buffers of one size that the queues of one host hold, and commands that wait for one.
///
/// A host that holds `held` buffers gets another one only while more than held / kFactor are free. So one
/// host alone gets nearly all of them, and many that hold on to what they have still leave some to the host
/// that comes next: n of them leave 1 / (n * kFactor + 1) of all.
struct RdmaBufferBudget {
  static constexpr uint32_t kFactor = 4;

  bool pending = false;
  uint32_t held = 0;
  IntrusiveQueue<RdmaSlot> waiting;
  bool listed = false;  // among those with waiting commands
  RdmaBufferBudget* next = nullptr;

  [[nodiscard]] bool may_take(uint32_t free) const {
    return pending ? held * kFactor < free : held < free * kFactor;
  }
};

/// What the queues of one host hold of a poller's share of a device. Queues before Fabrics Connect, and of
/// discovery controllers, are one host together. One thread.
struct RdmaBudget {
  explicit RdmaBudget(bool pending) {
    small.pending = pending;
    large.pending = pending;
  }

  RdmaBufferBudget small;
  RdmaBufferBudget large;
  uint32_t capsules = 0;  // that wait until a response of their queue is acknowledged
  uint32_t queues = 0;

  /// The share of the receive buffers of all hosts: as for buffers, waiting capsules leave most of them to
  /// others.
  [[nodiscard]] bool may_keep_capsule(uint32_t free) const {
    constexpr uint32_t kShare = 4;
    return (capsules + 1) * kShare <= free;
  }
};

}  // namespace uroce::nvmf
