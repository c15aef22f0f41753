#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/mem/backing_file.h"
#include "apps/mem/layout.h"
#include "client/verbs_objects.h"

namespace uroce::memory_export {

/// What clients may reach under a name.
struct Region {
  std::string name;
  bool writable = false;
  std::span<std::byte> bytes;
  const BackingFile* file = nullptr;  // none: the directory
};

/// Regions in memory. The first is the directory, whose name is empty.
class Exports {
 public:
  static Result<Exports> open(const std::vector<RegionConfiguration>& configuration);

  [[nodiscard]] std::span<const Region> regions() const { return regions_; }
  /// Index of the region with that name.
  [[nodiscard]] std::optional<size_t> find(std::string_view name) const;

 private:
  std::vector<BackingFile> files_;
  std::vector<EntryBytes> directory_;
  std::vector<Region> regions_;
};

/// The regions as one device knows them, and where completions of its connections come. Each region has a
/// protection domain of its own, so that a connection reaches the region that it asked for and no other.
class DeviceRegions {
 public:
  /// `messages` is memory for messages of connections, which all domains know. Throws client::Failure.
  DeviceRegions(ibv_context& device, const Exports& exports, std::span<std::byte> messages,
                int completions_max);

  [[nodiscard]] const ibv_context* device() const { return &device_; }
  [[nodiscard]] ibv_pd* domain(size_t region) const { return regions_[region].domain.get(); }
  [[nodiscard]] uint32_t key(size_t region) const { return regions_[region].memory->rkey; }
  [[nodiscard]] uint32_t message_key(size_t region) const { return regions_[region].messages->lkey; }
  [[nodiscard]] ibv_cq* completions() const { return completions_.get(); }
  [[nodiscard]] uint8_t reads_max() const { return reads_max_; }

  /// Readable when there may be completions.
  [[nodiscard]] int descriptor() const { return channel_->fd; }
  /// To be called when it is readable, before completions are polled.
  void rearm();

 private:
  struct Registered {
    client::ProtectionDomain domain;
    client::MemoryRegion memory;
    client::MemoryRegion messages;
  };
  using CompletionChannel = std::unique_ptr<ibv_comp_channel, client::Destroyer<ibv_destroy_comp_channel>>;

  ibv_context& device_;
  uint8_t reads_max_ = 0;
  CompletionChannel channel_;
  client::CompletionQueue completions_;
  std::vector<Registered> regions_;
};

}  // namespace uroce::memory_export
