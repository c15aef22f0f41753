#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "mem/bus/bus_pins.h"
#include "mem/bus/bus_space.h"
#include "mem/rights/access.h"

namespace uroce::mem {

/// Which bytes of a list of pages a registration covers.
struct PageExtent {
  uint32_t pages = 0;  // given; those beyond the last byte are not looked at
  uint8_t page_shift = 0;
  uint64_t offset = 0;  // of the first byte, in the first page
  uint64_t length = 0;
};

/// The pages of one fast registration, as bus addresses. The consumer fills it in and reads it; from post()
/// to give_back() or hand_over() it is the stack's, with its pages pinned and found.
///
/// post(): any thread, which may find it taken. give_back(), hand_over(): a poller within a turn, or the
/// thread that has called post() and has thought better of it; no lock, no allocation.
class PageList {
 public:
  static constexpr uint8_t kPageShiftMin = 12;
  static constexpr uint8_t kPageShiftMax = 40;

  /// Throws std::bad_alloc. `bus` is not owned and outlives the list.
  PageList(BusSpace& bus, uint32_t pages_max);
  ~PageList();
  PageList(const PageList&) = delete;
  PageList& operator=(const PageList&) = delete;

  [[nodiscard]] uint32_t pages_max() const { return pages_max_; }
  /// The consumer's, while the list is not posted.
  [[nodiscard]] std::span<uint64_t> addresses() const { return {addresses_.get(), pages_max_}; }
  [[nodiscard]] bool posted() const {
    return posted_.load(std::memory_order_acquire);  // pairs with the release where it is cleared
  }

  /// Fills in the addresses of runs, one behind the other, in pages of `page_size`: every run but the first
  /// begins and every one but the last ends on the border of a page, or the next one goes on where it ends.
  /// Begins `offset` bytes into the first run. Returns how many runs found room, at least in part; `offset`
  /// then says how much of the last of them did, 0 for all. EINVAL: not a size of page, no runs, or an offset
  /// outside the first. EBUSY: posted.
  Result<uint32_t> fill(std::span<const BusRange> runs, uint64_t& offset, uint64_t page_size,
                        PageExtent& extent);

  /// Pins what `extent` covers. 0, EINVAL (a page that is not mapped, not mapped for what `access` needs, or
  /// not a multiple of its size; too few or too many of them), or EBUSY (posted already).
  int post(const PageExtent& extent, Access access);

  // As it was posted.
  [[nodiscard]] const PageExtent& extent() const { return extent_; }
  /// Where the pages are in this process; as many as the extent needs.
  [[nodiscard]] std::span<std::byte* const> pages() const { return {pages_.get(), used_}; }
  /// An address in each mapping that is pinned, once for each pin.
  [[nodiscard]] std::span<const uint64_t> pins() const { return pins_.addresses(); }
  [[nodiscard]] bool contiguous() const { return contiguous_; }
  /// Every page is mapped for reading.
  [[nodiscard]] bool readable() const { return pins_.readable(); }

  /// Back to the consumer, unpinned.
  void give_back();
  /// Back to the consumer; the pins go to one that has none, but room.
  void hand_over(BusPins& to);

 private:
  int pin(const PageExtent& extent, Access access);
  void let_go();

  BusSpace& bus_;
  const uint32_t pages_max_;
  std::unique_ptr<uint64_t[]> addresses_;
  std::unique_ptr<std::byte*[]> pages_;
  BusPins pins_;
  PageExtent extent_;
  uint32_t used_ = 0;
  bool contiguous_ = false;
  std::atomic<bool> posted_{false};
};

}  // namespace uroce::mem
