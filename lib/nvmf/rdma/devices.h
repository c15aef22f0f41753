#pragma once

#include <memory>
#include <vector>

#include "nvmf/rdma/poller.h"

namespace uroce::nvmf {

/// The RDMA devices in use, each opened with the first connection over it. Control thread.
class RdmaDevices {
 public:
  struct Entry {
    std::unique_ptr<RdmaDevice> device;
    std::vector<std::unique_ptr<RdmaShare>> shares;  // one for each poller, in their order
  };

  RdmaDevices(const RdmaOptions& options, std::shared_ptr<RdmaRegions> regions)
      : options_(options), regions_(std::move(regions)) {}

  /// Opens it when it is new, and gives each poller its share.
  Result<Entry*> find(ibv_context& context, std::span<const std::unique_ptr<RdmaPoller>> pollers);
  [[nodiscard]] const std::vector<std::unique_ptr<Entry>>& all() const { return entries_; }

 private:
  const RdmaOptions& options_;
  const std::shared_ptr<RdmaRegions> regions_;
  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace uroce::nvmf
