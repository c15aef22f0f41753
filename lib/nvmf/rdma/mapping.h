#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/values/result.h"
#include "nvmf/rdma/direct_verbs.h"

namespace uroce::nvmf {

/// Memory mapped for DMA by a device that has bus addresses (urocedv.h), in one direction: the device cannot
/// be made to do the other to it. Ends with the object, when no region covers it any more.
class RdmaMapping {
 public:
  /// What urocedv_dma_map_single says.
  static Result<RdmaMapping> map(const DirectVerbs& verbs, ibv_context& context, std::span<std::byte> memory,
                                 urocedv_dma_direction direction);
  RdmaMapping(RdmaMapping&& other) noexcept
      : verbs_(other.verbs_),
        context_(std::exchange(other.context_, nullptr)),
        address_(other.address_),
        length_(other.length_),
        direction_(other.direction_) {}
  RdmaMapping& operator=(RdmaMapping&&) = delete;
  ~RdmaMapping() {
    if (context_ != nullptr) verbs_.unmap(context_, address_, length_, direction_);
  }

  /// The bus address of the first byte.
  [[nodiscard]] uint64_t address() const { return address_; }

 private:
  RdmaMapping(const DirectVerbs& verbs, ibv_context& context, uint64_t address, size_t length,
              urocedv_dma_direction direction)
      : verbs_(verbs), context_(&context), address_(address), length_(length), direction_(direction) {}

  const DirectVerbs& verbs_;
  ibv_context* context_;
  uint64_t address_;
  size_t length_;
  urocedv_dma_direction direction_;
};

}  // namespace uroce::nvmf
