#pragma once

#include <memory>
#include <unordered_map>

#include "nvmf/rdma_buffers.h"
#include "nvmf/rdma_device.h"
#include "nvmf/rdma_options.h"
#include "nvmf/rdma_receives.h"

namespace uroce::nvmf {

/// A poller's share of a device: what its queues there have in common. Made and ended by the control thread
/// while no queue uses it; in between it is the poller's, but for reserve().
class RdmaShare {
 public:
  static Result<std::unique_ptr<RdmaShare>> open(RdmaDevice& device, const RdmaOptions& options);

  [[nodiscard]] RdmaDevice& device() const { return device_; }
  [[nodiscard]] ibv_cq& completions() const { return *completions_; }
  [[nodiscard]] ibv_comp_channel& channel() const { return *channel_; }
  [[nodiscard]] ibv_srq* shared_receives() const { return shared_.get(); }
  /// Of the shared receive queue; null without one.
  [[nodiscard]] RdmaReceives* receives() const { return receives_.get(); }
  [[nodiscard]] RdmaBuffers& buffers() const { return *buffers_; }
  [[nodiscard]] RdmaRegionView& regions() { return regions_; }

  /// Room in the completion queue for a queue's work requests. False: the device has no larger one. Control
  /// thread.
  bool reserve(uint32_t entries);
  void unreserve(uint32_t entries) { reserved_ -= entries; }

  /// What the last poll() of the completion queue came to.
  void found_empty(bool empty) { empty_ = empty; }
  [[nodiscard]] bool is_empty() const { return empty_; }

  // Whose a completion of the shared receive queue is.
  void add(uint32_t queue_pair, RdmaQueue& queue) { queues_[queue_pair] = &queue; }
  void remove(uint32_t queue_pair) {
    queues_.erase(queue_pair);
    found_ = {};
  }
  [[nodiscard]] RdmaQueue* find(uint32_t queue_pair) {
    // Commands of one queue come in bursts.
    if (found_.queue != nullptr && found_.queue_pair == queue_pair) return found_.queue;
    const auto found = queues_.find(queue_pair);
    if (found == queues_.end()) return nullptr;
    found_ = {queue_pair, found->second};
    return found->second;
  }

 private:
  explicit RdmaShare(RdmaDevice& device) : device_(device), regions_(device.regions(), device.domain()) {}
  Status make_completions();
  Status make_shared_receives(const RdmaOptions& options);

  RdmaDevice& device_;
  RdmaRegionView regions_;
  std::unique_ptr<ibv_comp_channel, FreeChannel> channel_;
  std::unique_ptr<ibv_cq, FreeQueue> completions_;
  std::unique_ptr<RdmaBuffers> buffers_;
  std::unique_ptr<RdmaReceives> receives_;
  std::unique_ptr<ibv_srq, FreeSharedReceives> shared_;
  std::unordered_map<uint32_t, RdmaQueue*> queues_;
  struct {
    uint32_t queue_pair = 0;
    RdmaQueue* queue = nullptr;
  } found_;  // the last one
  bool empty_ = false;
  uint32_t reserved_ = 0;  // completions
};

}  // namespace uroce::nvmf
