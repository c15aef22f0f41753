#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "nvmf/rdma/budget.h"
#include "nvmf/rdma/intrusive_queue.h"
#include "nvmf/rdma/memory.h"
#include "nvmf/rdma/options.h"
#include "nvmf/rdma/slot.h"

namespace uroce::nvmf {

/// Staging buffers of two sizes, registered once. A command that gets none waits: those of one host in the
/// order of asking, and hosts take turns, so that none is passed over. One thread.
class RdmaBuffers {
 public:
  static Result<std::unique_ptr<RdmaBuffers>> allocate(ibv_pd& domain, const RdmaOptions& options);

  /// Within the budget, which outlives what it holds. False: the slot waits, and next_served() will return
  /// it.
  bool take(RdmaSlot& slot, RdmaBudget& budget);
  void give_back(RdmaBuffer& buffer);
  /// A slot that has waited and has a buffer now; null: none.
  RdmaSlot* next_served();
  /// The queue's slots do not wait any longer.
  void forget(const RdmaQueue& queue);

  [[nodiscard]] uint32_t local_key() const { return memory_->local_key(); }
  [[nodiscard]] std::span<std::byte> bytes() const { return memory_->bytes(); }
  [[nodiscard]] uint32_t free_large() const { return large_.free_count(); }
  [[nodiscard]] uint32_t free_small() const { return small_.free_count(); }

 private:
  struct Size {
    bool large = false;
    std::vector<std::byte*> free;
    IntrusiveQueue<RdmaBufferBudget> waiting;  // hosts that have waiting slots
    uint32_t hosts_waiting = 0;

    [[nodiscard]] uint32_t free_count() const { return static_cast<uint32_t>(free.size()); }
  };

  RdmaBuffers() = default;
  [[nodiscard]] static bool is_large(const RdmaSlot& slot) {
    return slot.request.data_bytes > RdmaOptions::kSmallBufferBytes;
  }
  static void give(Size& size, RdmaBufferBudget& budget, RdmaSlot& slot);
  static RdmaSlot* serve(Size& size);
  static void forget(Size& size, const RdmaQueue& queue);

  std::unique_ptr<RdmaMemory> memory_;
  Size small_;
  Size large_{.large = true};
};

}  // namespace uroce::nvmf
