#include "mem/rights/region.h"

#include <algorithm>

#include "base/values/contract.h"

namespace uroce::mem {

Piece Binding::piece_of_list(uint64_t offset) const {
  const uint64_t at = start_ + offset;
  const uint64_t left = length_ - offset;
  if (layout_ == Layout::kPages) {
    const uint64_t page = uint64_t{1} << page_shift_;
    const uint64_t in_page = at & (page - 1);
    std::byte* const data = static_cast<std::byte* const*>(memory_)[at >> page_shift_];
    return {data + in_page, std::min(page - in_page, left)};
  }
  if (layout_ == Layout::kNull) return {static_cast<std::byte*>(memory_), std::min(kNullBytes, left)};
  const std::vector<RunList::Run>& runs = static_cast<const RunList*>(memory_)->runs;
  const auto run = std::ranges::upper_bound(runs, at, {}, &RunList::Run::end);
  UROCE_ASSERT(run != runs.end());
  const uint64_t begin = run == runs.begin() ? 0 : std::prev(run)->end;
  return {run->data + (at - begin), std::min(run->end - at, left)};
}

}  // namespace uroce::mem
