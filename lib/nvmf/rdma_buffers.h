#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "nvmf/rdma_fifo.h"
#include "nvmf/rdma_memory.h"
#include "nvmf/rdma_options.h"
#include "nvmf/rdma_slot.h"

namespace uroce::nvmf {

/// Staging buffers of two sizes, registered once. Who finds none free waits in the order of asking, so that
/// nobody is passed over. One thread.
class RdmaBuffers {
 public:
  static Result<std::unique_ptr<RdmaBuffers>> allocate(ibv_pd& domain, const RdmaOptions& options);

  /// False: the slot waits, and next_served() will return it.
  bool take(RdmaSlot& slot);
  void give_back(RdmaBuffer& buffer);
  /// A slot that has waited and has a buffer now; null: none.
  RdmaSlot* next_served();
  /// The queue's slots do not wait any longer.
  void forget(const RdmaQueue& queue);

  [[nodiscard]] uint32_t local_key() const { return memory_->local_key(); }
  [[nodiscard]] std::span<std::byte> bytes() const { return memory_->bytes(); }
  /// How often somebody has had to wait.
  [[nodiscard]] uint64_t waits() const { return waits_; }

 private:
  struct Size {
    std::vector<std::byte*> free;
    Fifo<RdmaSlot> waiting;
  };

  RdmaBuffers() = default;
  [[nodiscard]] static bool is_large(const RdmaSlot& slot) {
    return slot.request.data_bytes > RdmaOptions::kSmallBufferBytes;
  }

  std::unique_ptr<RdmaMemory> memory_;
  Size small_;
  Size large_;
  uint64_t waits_ = 0;
};

}  // namespace uroce::nvmf
