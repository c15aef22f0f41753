#pragma once

#include <infiniband/urocedv.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/result.h"

namespace uroce::nvmf {

/// Memory mapped for DMA by a device that has bus addresses (urocedv.h), in one direction: the device cannot
/// be made to do the other to it. Ends with the object, when no region covers it any more.
class RdmaMapping {
 public:
  /// What urocedv_dma_map_single says.
  static Result<RdmaMapping> map(ibv_context& context, std::span<std::byte> memory,
                                 urocedv_dma_direction direction);
  RdmaMapping(RdmaMapping&& other) noexcept
      : context_(std::exchange(other.context_, nullptr)),
        address_(other.address_),
        length_(other.length_),
        direction_(other.direction_) {}
  RdmaMapping& operator=(RdmaMapping&&) = delete;
  ~RdmaMapping() {
    if (context_ != nullptr) urocedv_dma_unmap_single(context_, address_, length_, direction_);
  }

  /// The bus address of the first byte.
  [[nodiscard]] uint64_t address() const { return address_; }

 private:
  RdmaMapping(ibv_context& context, uint64_t address, size_t length, urocedv_dma_direction direction)
      : context_(&context), address_(address), length_(length), direction_(direction) {}

  ibv_context* context_;
  uint64_t address_;
  size_t length_;
  urocedv_dma_direction direction_;
};

}  // namespace uroce::nvmf
