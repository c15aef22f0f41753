#include "mem/bus/page_list.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "base/values/contract.h"

namespace uroce::mem {

namespace {

bool in_pages(const PageExtent& extent, uint32_t pages_max) {
  if (extent.page_shift < PageList::kPageShiftMin || extent.page_shift > PageList::kPageShiftMax)
    return false;
  const uint64_t page = uint64_t{1} << extent.page_shift;
  const uint64_t given = uint64_t{extent.pages} << extent.page_shift;
  return extent.pages <= pages_max && extent.length > 0 && extent.offset < page && extent.offset < given &&
         extent.length <= given - extent.offset;
}

}  // namespace

PageList::PageList(BusSpace& bus, uint32_t pages_max)
    : bus_(bus),
      pages_max_(pages_max),
      addresses_(new uint64_t[pages_max]()),
      pages_(new std::byte*[pages_max]()),
      pins_(bus) {
  pins_.reserve(pages_max);
}

PageList::~PageList() { UROCE_ASSERT(!posted()); }

Result<uint32_t> PageList::fill(std::span<const BusRange> runs, uint64_t& offset, uint64_t page_size,
                                PageExtent& extent) {
  if (!std::has_single_bit(page_size) || page_size < (uint64_t{1} << kPageShiftMin) ||
      page_size > (uint64_t{1} << kPageShiftMax)) {
    return Error{EINVAL, "not a size of page"};
  }
  if (runs.empty() || offset >= runs[0].length) return Error{EINVAL, "no first byte"};
  if (posted()) return Error{EBUSY, "the page list is posted"};
  const uint64_t mask = page_size - 1;
  uint64_t end = runs[0].address + std::exchange(offset, 0);
  extent = {.page_shift = static_cast<uint8_t>(std::countr_zero(page_size)), .offset = end & mask};
  uint64_t room = uint64_t{pages_max_} * page_size - extent.offset;  // bytes, behind `end`
  for (uint32_t i = 0; i < runs.size(); ++i) {
    const uint64_t address = i == 0 ? end : runs[i].address;
    const bool goes_on = address == end;
    if (!goes_on && ((address | end) & mask) != 0) return i;
    const uint64_t left = runs[i].address + runs[i].length - address;
    const uint64_t taken = std::min(left, room);
    // The page that `end` is in is in the list already, unless it is the border itself.
    uint64_t page = goes_on && i > 0 ? (end + mask) & ~mask : address & ~mask;
    for (; page < address + taken; page += page_size) addresses_[extent.pages++] = page;
    extent.length += taken;
    room -= taken;
    end = address + taken;
    if (taken == left) continue;
    offset = end - runs[i].address;
    return taken > 0 ? i + 1 : i;
  }
  return static_cast<uint32_t>(runs.size());
}

int PageList::post(const PageExtent& extent, Access access) {
  if (posted_.exchange(true, std::memory_order_acquire)) return EBUSY;  // pairs with its clearing
  const int error = in_pages(extent, pages_max_) ? pin(extent, access) : EINVAL;
  if (error != 0) give_back();
  return error;
}

/// One pin for each run of pages that lie in one mapping one behind the other.
int PageList::pin(const PageExtent& extent, Access access) {
  const uint64_t page = uint64_t{1} << extent.page_shift;
  extent_ = extent;
  used_ = 0;
  contiguous_ = true;
  uint64_t run = 0;  // where the last pinned run begins, and how long it is
  uint64_t run_bytes = 0;
  for (uint64_t covered = 0; covered < extent.length; ++used_) {
    const uint64_t skipped = used_ == 0 ? extent.offset : 0;
    const uint64_t bytes = std::min(page - skipped, extent.length - covered);
    if ((addresses_[used_] & (page - 1)) != 0) return EINVAL;
    const uint64_t start = addresses_[used_] + skipped;
    std::byte* data = nullptr;
    if (used_ > 0 && start == run + run_bytes) {
      const Piece whole = bus_.translate(run, run_bytes + bytes, access);
      if (whole.data != nullptr) data = whole.data + run_bytes;
    }
    if (data == nullptr) {
      data = pins_.add(start, bytes, access);
      if (data == nullptr) return EINVAL;
      run = start;
      run_bytes = 0;
    }
    run_bytes += bytes;
    pages_[used_] = data - skipped;
    contiguous_ = contiguous_ && (used_ == 0 || pages_[used_] == pages_[used_ - 1] + page);
    covered += bytes;
  }
  UROCE_ASSERT(used_ == extent.pages || used_ < pages_max_);
  return 0;
}

void PageList::give_back() {
  UROCE_ASSERT(posted());
  pins_.release();
  let_go();
}

void PageList::hand_over(BusPins& to) {
  UROCE_ASSERT(posted());
  to.take_from(pins_);
  let_go();
}

void PageList::let_go() {
  posted_.store(false, std::memory_order_release);  // pairs with post()
}

}  // namespace uroce::mem
