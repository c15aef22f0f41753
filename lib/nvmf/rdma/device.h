#pragma once

#include <infiniband/verbs.h>

#include <memory>

#include "base/values/result.h"
#include "nvmf/rdma/regions.h"

namespace uroce::nvmf {

struct FreeDomain {
  void operator()(ibv_pd* domain) const { ibv_dealloc_pd(domain); }
};
struct FreeQueue {
  void operator()(ibv_cq* queue) const { ibv_destroy_cq(queue); }
};
struct FreeSharedReceives {
  void operator()(ibv_srq* queue) const { ibv_destroy_srq(queue); }
};
struct FreeChannel {
  void operator()(ibv_comp_channel* channel) const { ibv_destroy_comp_channel(channel); }
};

/// An RDMA device in use: what all pollers share of it. The context is rdma_cm's.
class RdmaDevice {
 public:
  static Result<std::unique_ptr<RdmaDevice>> open(ibv_context& context, std::shared_ptr<RdmaRegions> regions);
  ~RdmaDevice();
  RdmaDevice(const RdmaDevice&) = delete;
  RdmaDevice& operator=(const RdmaDevice&) = delete;

  [[nodiscard]] ibv_context& context() const { return context_; }
  [[nodiscard]] ibv_pd& domain() const { return *domain_; }
  [[nodiscard]] const ibv_device_attr& attributes() const { return attributes_; }
  [[nodiscard]] const RdmaRegions& regions() const { return *regions_; }
  [[nodiscard]] bool sends_with_invalidate() const {
    return (attributes_.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS) != 0;
  }

 private:
  RdmaDevice(ibv_context& context, std::shared_ptr<RdmaRegions> regions)
      : context_(context), regions_(std::move(regions)) {}

  ibv_context& context_;
  const std::shared_ptr<RdmaRegions> regions_;
  ibv_device_attr attributes_{};
  std::unique_ptr<ibv_pd, FreeDomain> domain_;
};

}  // namespace uroce::nvmf
