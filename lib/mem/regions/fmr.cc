// An FMR whose maps_max is reached fails with EAGAIN, which says that the same call succeeds after an
// unmapping; EINVAL is every mistake of the caller.
#include "mem/regions/fmr.h"

#include <cerrno>
#include <string>

#include "base/values/contract.h"

namespace uroce::mem {

Result<std::unique_ptr<Fmr>> Fmr::make(RegionTable& table, const Options& options) {
  if (options.access.any(kZeroBased | kWindowBind))
    return Error{EINVAL, "an FMR has the address that it is mapped to, and no windows"};
  if (Status status = check_rights(options.access); !status) return status.error();
  if (options.domain == DomainId{}) return Error{EINVAL, "a region needs a protection domain"};
  if (options.pages_max == 0 || options.pages_max > kPagesMax || options.maps_max == 0 ||
      options.maps_max > kMapsMax || options.page_shift < kPageShiftMin ||
      options.page_shift > kPageShiftMax) {
    return Error{EINVAL, "an FMR of " + std::to_string(options.pages_max) + " pages of 2^" +
                             std::to_string(options.page_shift) + " bytes, to be mapped " +
                             std::to_string(options.maps_max) + " times"};
  }
  std::unique_ptr<Fmr> fmr(new Fmr(table, options));
  for (Side& side : fmr->sides_) {
    side.pages.resize(options.pages_max);
    side.pins.reserve(options.pages_max);
  }
  Status made = fmr->entry_.publish(table, fmr->unbound());
  if (!made) return made.error();
  fmr->key_ = fmr->entry_.first_key();
  return fmr;
}

RegionBinding Fmr::unbound() const {
  return {.key = key_,
          .kind = RegionKind::kMapped,
          .bound = false,
          .domain = options_.domain,
          .access = (options_.access & kChecked) | kLocalRead};
}

Status Fmr::check(std::span<const uint64_t> pages, uint64_t iova) const {
  const uint64_t page = uint64_t{1} << options_.page_shift;
  if (pages.empty() || pages.size() > options_.pages_max)
    return Error{EINVAL, std::to_string(pages.size()) + " pages for an FMR"};
  if (iova % page != 0 || iova + (pages.size() * page - 1) < iova)
    return Error{EINVAL, "an address that is not aligned to pages, or wraps"};
  for (const uint64_t address : pages) {
    if (address % page != 0) return Error{EINVAL, "a page that is not aligned"};
  }
  if (maps_ == options_.maps_max) return Error{EAGAIN, "it must be unmapped first"};
  return {};
}

Status Fmr::map(std::span<const uint64_t> pages, uint64_t iova) {
  const std::lock_guard lock(mutex_);
  if (Status status = check(pages, iova); !status) return status;
  if (unmapper_ != nullptr) return Error{EBUSY, "it is being unmapped"};
  await_readers();
  Side& next = sides_[1 - current_];
  if (Status status = fill(next, pages); !status) return status;

  const uint64_t length = uint64_t{pages.size()} << options_.page_shift;
  RegionBinding binding = unbound();
  binding.key = table_.next_key(key_);
  binding.layout = Layout::kPages;
  binding.page_shift = options_.page_shift;
  binding.bound = true;
  binding.cold = table_.cold(length);
  if (!next.pins.readable()) binding.access = options_.access & kChecked;
  binding.iova = iova;
  binding.length = length;
  binding.memory = next.pages.data();
  UROCE_ASSERT(binding.key.index() == key_.index() && binding.key != key_);
  table_.write_entry(binding);
  key_ = binding.key;
  iova_ = iova;

  sides_[current_].pins.release();
  if (maps_ != 0 && table_.grace_period() != nullptr) {
    table_.grace_period()->begin(ticket_);
    other_in_use_ = true;
  }
  current_ = 1 - current_;
  ++maps_;
  UROCE_ASSERT(maps_ <= options_.maps_max);
  return {};
}

/// Returns when no poller reads the side that is not bound.
void Fmr::await_readers() {
  if (other_in_use_ && !table_.grace_period()->over(ticket_)) table_.wait_for_grace();
  other_in_use_ = false;
}

Status Fmr::fill(Side& side, std::span<const uint64_t> pages) const {
  UROCE_ASSERT(side.pins.addresses().empty());
  const uint64_t page = uint64_t{1} << options_.page_shift;
  for (size_t i = 0; i < pages.size(); ++i) {
    side.pages[i] = side.pins.add(pages[i], page, options_.access);
    if (side.pages[i] != nullptr) continue;
    side.pins.release();
    return Error{EFAULT, "a page is not in one mapping, or its direction forbids it"};
  }
  return {};
}

Status Fmr::unmap(std::span<Fmr* const> fmrs) {
  if (fmrs.empty()) return {};
  RegionTable& table = fmrs.front()->table_;
  for (const Fmr* fmr : fmrs) {
    if (&fmr->table_ != &table) return Error{EINVAL, "FMRs of two devices"};
  }
  const int here = 0;  // its address is this call's name
  for (Fmr* fmr : fmrs) {
    const std::lock_guard lock(fmr->mutex_);
    if (fmr->maps_ == 0) continue;
    UROCE_ASSERT(fmr->unmapper_ == nullptr);  // map() refuses what is being unmapped
    table.write_entry(fmr->unbound());
    fmr->sides_[fmr->current_].pins.release();
    fmr->maps_ = 0;
    fmr->unmapper_ = &here;
  }
  // Also when another call is about to unbind all of them: that is not before this one's return.
  table.wait_for_grace();
  for (Fmr* fmr : fmrs) {
    const std::lock_guard lock(fmr->mutex_);
    if (fmr->unmapper_ != &here) continue;
    fmr->unmapper_ = nullptr;
    fmr->other_in_use_ = false;
  }
  return {};
}

Status Fmr::end() {
  const std::lock_guard lock(mutex_);
  if (!entry_.published()) return Error{EINVAL, "it has ended"};
  if (maps_ != 0 || unmapper_ != nullptr) return Error{EBUSY, "it is mapped"};
  // No poller can be at its pages: it is not bound, and unmap() has waited for those that were.
  entry_.unpublish();
  entry_.give_back();
  return {};
}

MemoryKey Fmr::key() const {
  const std::lock_guard lock(mutex_);
  return key_;
}

uint32_t Fmr::maps() const {
  const std::lock_guard lock(mutex_);
  return maps_;
}

}  // namespace uroce::mem
