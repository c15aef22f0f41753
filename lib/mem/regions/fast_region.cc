#include "mem/regions/fast_region.h"

#include <algorithm>
#include <cerrno>
#include <new>

#include "base/values/contract.h"

namespace uroce::mem {

FastRegion::FastRegion(RegionTable& table, uint32_t pages_max)
    : table_(table), pages_max_(pages_max), pages_(new std::byte*[pages_max]()), pins_(*table.bus_space()) {
  pins_.reserve(pages_max);
}

Result<std::unique_ptr<FastRegion>> FastRegion::make(RegionTable& table, DomainId domain,
                                                     uint32_t pages_max) {
  UROCE_ASSERT(table.bus_space() != nullptr);
  if (domain == DomainId{}) return Error{EINVAL, "a region needs a protection domain"};
  if (pages_max == 0 || pages_max > kPagesMax) return Error{EINVAL, "no pages, or too many"};
  try {
    std::unique_ptr<FastRegion> region(new FastRegion(table, pages_max));
    Status made = region->entry_.publish_for_consumer(
        table, unbound_entry({}, RegionKind::kFast, domain, region.get()), region->history_);
    if (!made) return made.error();
    return region;
  } catch (const std::bad_alloc&) {
    return Error{ENOMEM, "no memory for the pages of a region"};
  }
}

Status FastRegion::end() {
  lock();
  if (windows != 0) {
    unlock();
    return Error{EBUSY, "windows are bound over the region"};
  }
  entry_.unpublish();
  unlock();
  // Not under the lock: a poller must not wait for a thread that waits for it.
  table_.wait_for_grace();
  let_go();
  entry_.give_back(&history_);
  return {};
}

int FastRegion::check(const PageExtent& extent, uint64_t iova, Access access) const {
  if (const Status rights = check_rights(access); !rights) return rights.error().code;
  if (access.any(kZeroBased) || extent.pages > pages_max_ || extent.length == 0) return EINVAL;
  return iova + (extent.length - 1) < iova ? EINVAL : 0;
}

void FastRegion::take(const FastBinding& wanted, DomainId domain) {
  PageList& list = *wanted.pages;
  const PageExtent& extent = list.extent();
  UROCE_ASSERT(state_ == State::kFree && list.posted() && list.pages().size() <= pages_max_);
  std::ranges::copy(list.pages(), pages_.get());
  const bool contiguous = list.contiguous();
  const Access granted = (wanted.access & kKept) | (list.readable() ? kLocalRead : Access());
  list.hand_over(pins_);
  state_ = State::kBound;
  history_.add(wanted.key.key());
  table_.write_entry({.key = wanted.key,
                      .kind = RegionKind::kFast,
                      .layout = contiguous ? Layout::kContiguous : Layout::kPages,
                      .page_shift = extent.page_shift,
                      .cold = table_.cold(extent.length),
                      .domain = domain,
                      .access = granted,
                      .iova = wanted.iova,
                      .length = extent.length,
                      .memory = contiguous ? static_cast<void*>(pages_[0] + extent.offset) : pages_.get(),
                      .offset = contiguous ? 0 : extent.offset,
                      .object = this});
}

void FastRegion::let_go() {
  UROCE_ASSERT(windows == 0);
  pins_.release();
  state_ = State::kFree;
}

Outcome bind_fast_region(RegionTable& table, const FastBinding& wanted, DomainId domain) {
  const RegionBinding found = table.read_entry(wanted.region);
  if (found.kind != RegionKind::kFast) return Outcome::kRefused;
  auto& region = static_cast<FastRegion&>(*found.object);
  if (!region.try_lock()) return Outcome::kBusy;
  // From here on no other thread changes it; it may have ended meanwhile.
  const bool same = table.read_entry(wanted.region).object == &region;
  const bool right = same && found.domain == domain && region.state_ == FastRegion::State::kFree &&
                     wanted.key.index() == wanted.region.index() &&
                     wanted.pages->pages().size() <= region.pages_max();
  if (right) region.take(wanted, domain);
  region.unlock();
  return right ? Outcome::kDone : Outcome::kRefused;
}

}  // namespace uroce::mem
