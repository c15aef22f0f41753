#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "nvmf/rdma/memory.h"
#include "nvmf/rdma/slot.h"

namespace uroce::nvmf {

/// Receive buffers of one receive queue, a connection's own or a shared one. One thread, but for
/// first_post().
class RdmaReceives {
 public:
  static Result<std::unique_ptr<RdmaReceives>> allocate(ibv_pd& domain, uint32_t entries,
                                                        uint32_t in_capsule_bytes);

  /// All of them go to the queue, which has room for them. False: it refused.
  bool first_post(ibv_qp& queue_pair);
  bool first_post(ibv_srq& shared);

  /// The capsule of a completion, which is the caller's now.
  RdmaCapsule& taken(uint64_t work_id);
  /// Goes back to the queue with the next flush(), at the latest.
  void give_back(RdmaCapsule& capsule);
  void flush();
  /// Nothing goes back any more.
  void end() { ended_ = true; }
  [[nodiscard]] std::span<std::byte> bytes() const { return memory_->bytes(); }
  /// Held by the receive queue.
  [[nodiscard]] uint32_t posted() const { return posted_; }

 private:
  static constexpr size_t kBatch = 32;

  RdmaReceives() = default;
  bool post_all();

  std::unique_ptr<RdmaMemory> memory_;
  std::vector<RdmaCapsule> capsules_;
  ibv_qp* queue_pair_ = nullptr;  // or
  ibv_srq* shared_ = nullptr;
  bool ended_ = false;
  uint32_t posted_ = 0;
  size_t batched_ = 0;
  std::array<ibv_recv_wr, kBatch> batch_{};
};

}  // namespace uroce::nvmf
