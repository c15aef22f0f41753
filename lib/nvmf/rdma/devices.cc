#include "nvmf/rdma/devices.h"

namespace uroce::nvmf {

Result<RdmaDevices::Entry*> RdmaDevices::find(ibv_context& context,
                                              std::span<const std::unique_ptr<RdmaPoller>> pollers) {
  for (const auto& entry : entries_) {
    if (&entry->device->context() == &context) return entry.get();
  }
  auto device = RdmaDevice::open(context, regions_);
  if (!device) return device.error();
  auto entry = std::make_unique<Entry>();
  entry->device = std::move(*device);
  for (size_t i = 0; i < pollers.size(); ++i) {
    auto share = RdmaShare::open(*entry->device, options_);
    if (!share) return share.error();
    entry->shares.push_back(std::move(*share));
  }
  for (size_t i = 0; i < pollers.size(); ++i) pollers[i]->add(*entry->shares[i]);
  return entries_.emplace_back(std::move(entry)).get();
}

}  // namespace uroce::nvmf
