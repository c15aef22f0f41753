#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "base/tables/index_space.h"
#include "base/values/result.h"
#include "mem/rights/access.h"
#include "mem/rights/grace_period.h"
#include "mem/rights/region.h"
#include "mem/rights/rights.h"

namespace uroce::mem {

/// A run of bus addresses.
struct BusRange {
  uint64_t address = 0;
  uint64_t length = 0;
};

/// The addresses by which "the device" knows memory that was mapped for it: a software IOMMU of one device.
/// A bus address is never the virtual address, and one that was not mapped, or not any more, resolves to
/// nothing. Addresses keep their place within a page of 4096 bytes. A range never reaches from one mapping
/// into another, also where their addresses happen to be neighbours.
///
///     63..60  59..54      ...                          (class) bits
///     tag     size class  generation | slot of the class | offset
///
/// Every mapping takes one slot of the smallest class that it fits in. Freed slots rest, and come back with
/// another generation where the address has room for it.
///
/// map() and unmap(): any thread, control path. pin(), unpin(): any thread, and pollers; no lock.
/// translate(): pollers within a turn; no lock, no allocation.
class BusSpace {
 public:
  /// No bus address: what a failed mapping returns (the kernel's DMA_MAPPING_ERROR).
  static constexpr uint64_t kError = UINT64_MAX;
  static constexpr uint64_t kLengthMax = uint64_t{1} << 46;

  struct Options {
    uint64_t offset = 0;                  // added to every address: for tests
    GracePeriod* grace_period = nullptr;  // not owned; must outlive the space. nullptr: no readers
    IndexSpace::Pages pages = IndexSpace::Pages::kHuge;
  };
  explicit BusSpace(const Options& options);
  ~BusSpace();
  BusSpace(const BusSpace&) = delete;
  BusSpace& operator=(const BusSpace&) = delete;

  /// EINVAL: no bytes, too many, or a range that wraps. ENOMEM: no slot left. The memory is not looked at.
  Result<uint64_t> map(std::byte* address, uint64_t length, Direction direction);

  /// Takes back whole mappings, all of them or none, with one grace period for all. EINVAL: not the start
  /// and length of a mapping of that direction, or named twice. EBUSY: pinned.
  Status unmap(std::span<const BusRange> mappings, Direction direction);

  /// Is the range inside a mapping of that direction? Any thread.
  [[nodiscard]] bool covers(uint64_t address, uint64_t length, Direction direction) const;

  /// Where [address, address + length) is, if all of it lies in one mapping whose direction permits what is
  /// `needed` (rights.h); no data otherwise.
  [[nodiscard]] Piece translate(uint64_t address, uint64_t length, Access needed) const;

  struct Pinned {
    std::byte* data = nullptr;
    bool readable = false;  // the mapping's direction lets the device read
  };
  /// Where the range is, for a region with such rights; the mapping that it lies in stays until unpin(). No
  /// data: it does not lie in one mapping, or its direction does not permit such rights (rights.h).
  Pinned pin(uint64_t address, uint64_t length, Access access);
  /// `address` as it was given to pin().
  void unpin(uint64_t address);

  /// What holds for mappings of so many bytes, if they begin with a page of 4096 bytes.
  struct AllocationLimits {
    uint64_t alignment = 0;     // of their bus addresses: a power of two
    uint32_t mappings_max = 0;  // that live at once, of all that share their size class
    uint32_t mappings = 0;      // that live
  };
  /// nullopt: nothing of that length can be mapped.
  [[nodiscard]] std::optional<AllocationLimits> allocation_limits(uint64_t length) const;

  [[nodiscard]] uint32_t mappings() const { return mappings_.load(std::memory_order_relaxed); }

 private:
  class Entry;
  static constexpr uint32_t kClassMin = 12;
  static constexpr uint32_t kClassMax = 47;
  static constexpr uint32_t kClasses = kClassMax - kClassMin + 1;

  [[nodiscard]] Entry* find(uint64_t address) const;
  static uint32_t size_class_of(uint64_t in_page, uint64_t length);
  IndexSpace* slots_of(uint32_t size_class);
  void take_back(Entry& entry, uint64_t address);

  const Options options_;
  std::mutex classes_mutex_;
  std::array<std::atomic<IndexSpace*>, kClasses> classes_{};  // made when first needed, owned
  std::atomic<uint32_t> mappings_{0};
};

}  // namespace uroce::mem
