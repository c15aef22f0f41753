#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <unordered_map>

#include "nvmf/rdma/address.h"
#include "nvmf/rdma/budget.h"
#include "nvmf/rdma/buffers.h"
#include "nvmf/rdma/device.h"
#include "nvmf/rdma/options.h"
#include "nvmf/rdma/receives.h"

namespace uroce::nvmf {

/// A poller's share of a device: what its queues there have in common. Made and ended by the control thread
/// while no queue uses it; in between it is the poller's, but for reserve() and unreserve().
class RdmaShare {
 public:
  static Result<std::unique_ptr<RdmaShare>> open(RdmaDevice& device, const RdmaOptions& options);

  [[nodiscard]] RdmaDevice& device() const { return device_; }
  [[nodiscard]] ibv_cq& completions() const { return *completions_; }
  [[nodiscard]] ibv_comp_channel& channel() const { return *channel_; }
  [[nodiscard]] ibv_srq* shared_receives() const { return shared_.get(); }
  /// The receive buffers of the shared receive queue; null without one.
  [[nodiscard]] RdmaReceives* receives() const { return receives_.get(); }
  [[nodiscard]] RdmaBuffers& buffers() const { return *buffers_; }
  [[nodiscard]] RdmaRegionView& regions() { return regions_; }

  /// Room in the completion queue for a queue's work requests. False: the device has no larger one. Control
  /// thread.
  bool reserve(uint32_t entries);
  void unreserve(uint32_t entries) { reserved_ -= entries; }

  // How far the completion queue is polled. What was in it at a mark has been handled once it is_past() it.
  struct Mark {
    uint64_t handled;
    uint64_t empties;
  };
  void polled(uint32_t count) {
    handled_ += count;
    if (count == 0) ++empties_;
  }
  [[nodiscard]] Mark mark() const { return {handled_, empties_}; }
  [[nodiscard]] bool is_past(const Mark& mark) const {
    // No partner: the message that led to the mark tells of every growth before it.
    return empties_ != mark.empties || handled_ - mark.handled >= capacity_.load(std::memory_order_relaxed);
  }

  // Budgets: of queues before Connect and of discovery controllers, and of a host, as long as queues hold it.
  [[nodiscard]] RdmaBudget& pending_budget() { return pending_budget_; }
  RdmaBudget& hold_budget(const RdmaAddress& host);
  void drop_budget(const RdmaAddress& host);

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
  RdmaBudget pending_budget_{true};
  std::map<RdmaAddress, RdmaBudget> host_budgets_;
  uint64_t handled_ = 0;  // completions
  uint64_t empties_ = 0;  // polls that found none
  std::atomic<uint32_t> capacity_{0};
  uint32_t reserved_ = 0;  // completions
};

}  // namespace uroce::nvmf
