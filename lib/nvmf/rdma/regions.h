#pragma once

#include <infiniband/verbs.h>
#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/values/result.h"
#include "block/block.h"
#include "nvmf/rdma/mapping.h"

namespace uroce::nvmf {

/// Memory of namespaces that is sent from where it lies, registered with every RDMA device in use: where the
/// device has bus addresses, mapped for it to read, under the key of one DMA region for all of it; elsewhere
/// by a region each. Any thread; control path.
class RdmaRegions {
 public:
  struct Region {
    const std::byte* begin;
    const std::byte* end;
    uint64_t address;  // of the first byte under the key
    uint32_t local_key;
  };

  ~RdmaRegions();

  /// With every device that is there or will come. What registering says.
  Status add(std::span<std::byte> memory);
  /// No queue sends from there any more.
  void remove(std::span<std::byte> memory);
  Status add_domain(ibv_pd& domain);
  void remove_domain(ibv_pd& domain);

  /// Changes when regions change: the owner of a copy compares it before each use.
  [[nodiscard]] uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  [[nodiscard]] std::vector<Region> of(const ibv_pd& domain) const;

 private:
  struct Domain {
    ibv_pd* domain;
    const DirectVerbs* direct;  // null, like the next: the device has no bus addresses
    ibv_mr* dma;                // the DMA region, for reading
  };
  struct Registered {
    ibv_pd* domain;
    std::span<std::byte> memory;
    std::optional<RdmaMapping> mapping;  // under the domain's DMA region, or ...
    ibv_mr* region = nullptr;            // ... by itself
    uint32_t local_key = 0;
  };
  Status register_with(const Domain& domain, std::span<std::byte> memory);
  template <typename Unwanted>
  void deregister(Unwanted unwanted);

  mutable std::mutex mutex_;
  std::vector<std::span<std::byte>> memories_;
  std::vector<Domain> domains_;
  std::list<Registered> registered_;
  std::atomic<uint64_t> generation_{1};
};

/// One thread's copy of a domain's regions.
class RdmaRegionView {
 public:
  RdmaRegionView(const RdmaRegions& regions, const ibv_pd& domain) : regions_(regions), domain_(domain) {}

  /// The piece as a device reads it; nullopt: it lies in no region as a whole.
  std::optional<ibv_sge> segment(const iovec& piece) {
    if (const uint64_t now = regions_.generation(); now != seen_) refresh(now);
    const auto* begin = static_cast<const std::byte*>(piece.iov_base);
    for (const RdmaRegions::Region& region : copy_) {
      if (begin >= region.begin && begin + piece.iov_len <= region.end)
        return ibv_sge{region.address + static_cast<uint64_t>(begin - region.begin),
                       static_cast<uint32_t>(piece.iov_len), region.local_key};
    }
    return std::nullopt;
  }

 private:
  void refresh(uint64_t generation);

  const RdmaRegions& regions_;
  const ibv_pd& domain_;
  uint64_t seen_ = 0;
  std::vector<RdmaRegions::Region> copy_;
};

/// A wrapper of the device whose memory() is registered as long as it lives. If it cannot be registered,
/// memory() is empty and the device is read by requests.
std::unique_ptr<block::Device> with_registered_memory(std::shared_ptr<RdmaRegions> regions,
                                                      std::unique_ptr<block::Device> device);

}  // namespace uroce::nvmf
