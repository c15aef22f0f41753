#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/values/identifiers.h"
#include "base/values/result.h"
#include "mem/bus/bus_pins.h"
#include "mem/keys/published_entry.h"
#include "mem/keys/region_table.h"
#include "mem/rights/grace_period.h"

namespace uroce::mem {

/// A region that is bound to a list of pages again and again, each time under a key that differs in its low
/// eight bits.
///
/// The list of a binding may be in use by pollers after the next one is made, so there are two and each takes
/// its turn: only a caller that maps faster than pollers turn has to wait.
///
/// Control path, thread-safe. The object is destroyed after end(), or when the table is not used any more.
class Fmr {
 public:
  static constexpr uint32_t kPagesMax = 1u << 16;
  static constexpr uint32_t kMapsMax = 255;  // no key comes twice between two unmappings
  static constexpr uint8_t kPageShiftMin = 12;
  static constexpr uint8_t kPageShiftMax = 30;

  struct Options {
    DomainId domain;
    Access access;
    uint32_t pages_max = 1;
    uint32_t maps_max = 1;    // before it must be unmapped
    uint8_t page_shift = 12;  // a page is 2^page_shift bytes
  };
  /// EINVAL: a limit above, rights, zero-based or window-bind access, no domain. ENOMEM.
  static Result<std::unique_ptr<Fmr>> make(RegionTable& table, const Options& options);

  /// Binds the pages, bus addresses that are multiples of the page size, one after the other to iova. What
  /// was bound before is not, any more, and its key dead for all requests that begin now; unmap() says when
  /// the last that began before is over. The pages stay mapped on the bus until they are not bound.
  ///
  /// A failure leaves the old binding. EINVAL: no pages or too many, a page or iova that is no multiple of
  /// the page size, or iova wraps. EAGAIN: maps_max is reached, unmap() first. EFAULT: a page does not lie in
  /// one mapping of a suitable direction. EBUSY: it is being unmapped.
  Status map(std::span<const uint64_t> pages, uint64_t iova);

  /// Unbinds all, with one grace period for all: afterwards no byte is touched under any key that they had.
  /// One that is not bound stays so. EINVAL: of two tables.
  static Status unmap(std::span<Fmr* const> fmrs);

  /// EBUSY: bound, or being unmapped. EINVAL: it has ended.
  Status end();

  /// The latest.
  [[nodiscard]] MemoryKey key() const;
  /// Since it was made or unmapped; 0: not bound.
  [[nodiscard]] uint32_t maps() const;
  [[nodiscard]] const Options& options() const { return options_; }
  /// What it is bound to. Only while no thread maps or unmaps it.
  [[nodiscard]] std::span<const uint64_t> pages() const { return sides_[current_].pins.addresses(); }
  [[nodiscard]] uint64_t iova() const { return iova_; }

 private:
  struct Side {
    explicit Side(BusSpace& bus) : pins(bus) {}
    std::vector<std::byte*> pages;
    BusPins pins;
  };

  Fmr(RegionTable& table, const Options& options)
      : table_(table), options_(options), sides_{Side(*table.bus_space()), Side(*table.bus_space())} {}
  [[nodiscard]] Status check(std::span<const uint64_t> pages, uint64_t iova) const;
  void await_readers();
  Status fill(Side& side, std::span<const uint64_t> pages) const;
  [[nodiscard]] RegionBinding unbound() const;

  RegionTable& table_;
  const Options options_;
  mutable std::mutex mutex_;
  MemoryKey key_;
  uint64_t iova_ = 0;
  uint32_t maps_ = 0;
  size_t current_ = 0;              // the side that is bound, or was last
  bool other_in_use_ = false;       // pollers may know the other side still: until the ticket is over
  const void* unmapper_ = nullptr;  // the thread that waits for pollers to let go of both
  GraceTicket ticket_;
  Side sides_[2];
  PublishedEntry entry_;  // behind what it points to
};

}  // namespace uroce::mem
