#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/mem/backing_file.h"
#include "apps/mem/layout.h"
#include "client/failure.h"
#include "client/verbs_objects.h"

namespace uroce::memory_export {

/// What clients may reach under a name. Stays where it is as long as something refers to it.
struct Region {
  RegionConfiguration
      configuration;  // of a directory only the name, which is empty, and whether others may read it
  std::vector<EntryBytes> entries;  // a directory's
  std::optional<BackingFile> file;  // none: a directory

  [[nodiscard]] const std::string& name() const { return configuration.name; }
  [[nodiscard]] bool writable() const { return configuration.writable; }
  /// The memory. Clients change it, also through a const Region.
  [[nodiscard]] std::span<std::byte> bytes() const;
};
using SharedRegion = std::shared_ptr<const Region>;

/// Whether a client is on the server's host.
enum class Where : bool { kHere, kElsewhere };

/// Regions in memory. The first are the directories, whose names are empty: that of all regions, and, if
/// there are any for clients elsewhere, that of these.
class Exports {
 public:
  /// Regions that `before` has and that are configured as they were are the same ones. Files that were made
  /// or extended are what they were before, unless keep() is called.
  static Result<Exports> open(const std::vector<RegionConfiguration>& configuration, const Exports& before);
  void keep();

  [[nodiscard]] std::span<const SharedRegion> regions() const { return regions_; }
  /// What a client gets by the name. Null: no region that it may reach has that name.
  [[nodiscard]] SharedRegion find(std::string_view name, Where client) const;
  /// Whether clients elsewhere may reach anything.
  [[nodiscard]] bool for_others() const { return find("", Where::kElsewhere) != nullptr; }

 private:
  std::vector<SharedRegion> regions_;
  std::vector<std::shared_ptr<Region>> opened_;  // of these, by the last open()
};

/// A region as a device knows it, in a protection domain of its own: a connection reaches the region that it
/// asked for and no other. It can be reached until the last reference has gone.
struct RegisteredRegion {
  SharedRegion region;
  client::ProtectionDomain domain;
  client::MemoryRegion memory;
  client::MemoryRegion messages;  // of connections
};
using SharedRegistration = std::shared_ptr<const RegisteredRegion>;

/// The regions as one device knows them, and where completions of its connections come.
class DeviceRegions {
 public:
  using Registrations = std::vector<SharedRegistration>;

  /// `messages` is memory for messages of connections, which all domains know. Throws client::Failure.
  DeviceRegions(ibv_context& device, std::span<std::byte> messages, int completions_max);

  /// Registers what is not registered yet. Throws client::Failure; then nothing has changed.
  [[nodiscard]] Registrations prepare(const Exports& exports) const;
  /// From now on these are the regions of the device.
  void take(Registrations registrations) { registrations_ = std::move(registrations); }

  [[nodiscard]] const ibv_context* device() const { return &device_; }
  /// Null: the region is none of the device's.
  [[nodiscard]] SharedRegistration find(const Region& region) const;
  [[nodiscard]] ibv_cq* completions() const { return completions_.get(); }
  [[nodiscard]] uint8_t reads_max() const { return reads_max_; }

  /// Readable when there may be completions.
  [[nodiscard]] int descriptor() const { return channel_->fd; }
  /// To be called when it is readable, before completions are polled.
  void rearm();

 private:
  [[nodiscard]] client::Failure failed(std::string_view what) const;
  [[nodiscard]] SharedRegistration enrol(const SharedRegion& region) const;

  using CompletionChannel = std::unique_ptr<ibv_comp_channel, client::Destroyer<ibv_destroy_comp_channel>>;

  ibv_context& device_;
  const std::span<std::byte> messages_;
  uint8_t reads_max_ = 0;
  CompletionChannel channel_;
  client::CompletionQueue completions_;
  Registrations registrations_;
};

}  // namespace uroce::memory_export
