#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>

#include "nvmf/format/identify.h"
#include "nvmf/subsystem/exclusion.h"
#include "nvmf/subsystem/namespace_counters.h"
#include "nvmf/subsystem/options.h"

namespace uroce::nvmf {

/// A device under an NSID. Shared by queues; what is not said otherwise never changes.
class Namespace {
 public:
  /// `ana_state` is the group's, and outlives this.
  Namespace(NamespaceOptions options, const std::atomic<AnaState>& ana_state)
      : options_(std::move(options)), properties_(options_.device->properties()), ana_state_(ana_state) {}

  [[nodiscard]] uint32_t nsid() const { return options_.nsid; }
  [[nodiscard]] const NamespaceOptions& options() const { return options_; }
  [[nodiscard]] const block::Properties& properties() const { return properties_; }
  [[nodiscard]] bool read_only() const { return options_.read_only || properties_.read_only; }
  [[nodiscard]] std::span<std::byte> memory() const { return options_.device->memory(); }
  /// Any thread.
  [[nodiscard]] AnaState ana_state() const {
    return ana_state_.load(std::memory_order_relaxed);  // one value by itself: no partner
  }
  [[nodiscard]] Exclusion& exclusion() { return exclusion_; }
  [[nodiscard]] NamespaceStatistics& statistics() { return statistics_; }

  /// Any thread, for itself.
  Result<std::unique_ptr<block::Queue>> open_queue(uint32_t depth,
                                                   std::span<const std::span<std::byte>> buffers) {
    const std::lock_guard guard(opening_);
    return options_.device->open_queue(depth, buffers);
  }

 private:
  const NamespaceOptions options_;
  const block::Properties properties_;
  const std::atomic<AnaState>& ana_state_;
  Exclusion exclusion_;
  NamespaceStatistics statistics_;
  std::mutex opening_;
};

}  // namespace uroce::nvmf
