#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <memory>
#include <span>

#include "base/result.h"

namespace uroce::nvmf {

/// Memory of our own, registered with one device. Of huge pages when there are any.
class RdmaMemory {
 public:
  /// Zeroed. ENOMEM, or what ibv_reg_mr says.
  static Result<std::unique_ptr<RdmaMemory>> allocate(ibv_pd& domain, size_t bytes);
  ~RdmaMemory();
  RdmaMemory(const RdmaMemory&) = delete;
  RdmaMemory& operator=(const RdmaMemory&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }
  [[nodiscard]] uint32_t local_key() const { return region_->lkey; }

 private:
  explicit RdmaMemory(std::span<std::byte> bytes) : bytes_(bytes) {}

  const std::span<std::byte> bytes_;
  ibv_mr* region_ = nullptr;
};

}  // namespace uroce::nvmf
