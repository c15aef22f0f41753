#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/values/identifiers.h"
#include "base/values/result.h"
#include "mem/bus/bus_pins.h"
#include "mem/keys/published_entry.h"
#include "mem/keys/region_object.h"
#include "mem/keys/region_table.h"

namespace uroce::mem {

/// A region made of runs of bus addresses, one after the other under addresses that the caller chose. Unlike
/// on hardware, whose lists are of whole pages, runs may begin, end and meet anywhere.
///
/// Control path. The object is destroyed after end(), or when the table is not used any more.
class PhysicalRegion final : public RegionObject {
 public:
  static constexpr size_t kRunsMax = 1u << 16;

  struct Options {
    DomainId domain;
    Access access;      // those of a user region; with kZeroBased, iova is 0 whatever it says
    uint64_t iova = 0;  // of the first byte
  };
  /// What the runs lie in stays mapped until end(). Rights that the mappings' directions rule out are
  /// refused; memory that only the device may write is not readable with the L_Key. EINVAL: rights, no
  /// domain, no runs or more than kRunsMax, a run of no bytes, more than BusSpace::kLengthMax bytes, or iova
  /// wraps. EFAULT: a run does not lie in one mapping of a suitable direction. ENOMEM.
  static Result<std::unique_ptr<PhysicalRegion>> make(RegionTable& table, std::span<const BusRange> runs,
                                                      const Options& options);
  /// Returns after the grace period. EBUSY: windows are bound over it.
  Status end();

  [[nodiscard]] MemoryKey key() const { return entry_.first_key(); }
  [[nodiscard]] uint64_t length() const { return length_; }
  [[nodiscard]] uint64_t iova() const { return iova_; }
  ~PhysicalRegion() = default;

 private:
  explicit PhysicalRegion(RegionTable& table) : table_(table), pins_(*table.bus_space()) {}
  Status pin(std::span<const BusRange> runs, Access access);

  RegionTable& table_;
  BusPins pins_;
  RunList runs_;
  uint64_t iova_ = 0;
  uint64_t length_ = 0;
  PublishedEntry entry_;  // behind what it points to
};

}  // namespace uroce::mem
