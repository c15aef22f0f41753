#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "base/values/result.h"
#include "nvmf/rdma/mapping.h"

namespace uroce::nvmf {

/// Memory of our own, registered with one device. Of huge pages when there are any. Where the device has bus
/// addresses it is a physical region over memory that is mapped for DMA in one direction, at the addresses
/// that it has here; elsewhere a plain region.
class RdmaMemory {
 public:
  /// Zeroed. `direction`: what the device does to it. ENOMEM, or what registering says.
  static Result<std::unique_ptr<RdmaMemory>> allocate(ibv_pd& domain, size_t bytes,
                                                      urocedv_dma_direction direction);
  ~RdmaMemory();
  RdmaMemory(const RdmaMemory&) = delete;
  RdmaMemory& operator=(const RdmaMemory&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }
  [[nodiscard]] uint32_t local_key() const { return region_->lkey; }

 private:
  explicit RdmaMemory(std::span<std::byte> bytes) : bytes_(bytes) {}
  Status register_with(ibv_pd& domain, urocedv_dma_direction direction);

  const std::span<std::byte> bytes_;
  std::optional<RdmaMapping> mapping_;  // of a device that has bus addresses
  ibv_mr* region_ = nullptr;
};

}  // namespace uroce::nvmf
