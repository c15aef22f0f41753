// Runs of a physical region may begin, end and meet anywhere. Hardware wants whole pages in the middle; a
// list of runs does not. Cost: a search in the list for each piece.
#include "mem/regions/physical_region.h"

#include <cerrno>
#include <mutex>
#include <string>

#include "base/values/contract.h"

namespace uroce::mem {
namespace {

/// Bytes of all runs, or no sensible number.
Result<uint64_t> total_length(std::span<const BusRange> runs) {
  if (runs.empty() || runs.size() > PhysicalRegion::kRunsMax)
    return Error{EINVAL, "a physical region of " + std::to_string(runs.size()) + " runs"};
  uint64_t total = 0;
  for (const BusRange& run : runs) {
    if (run.length == 0 || run.length > BusSpace::kLengthMax - total)
      return Error{EINVAL, "a run of no bytes, or too many bytes"};
    total += run.length;
  }
  return total;
}

}  // namespace

Result<std::unique_ptr<PhysicalRegion>> PhysicalRegion::make(RegionTable& table,
                                                             std::span<const BusRange> runs,
                                                             const Options& options) {
  if (Status status = check_rights(options.access); !status) return status.error();
  if (options.domain == DomainId{}) return Error{EINVAL, "a region needs a protection domain"};
  const Result<uint64_t> length = total_length(runs);
  if (!length) return length.error();
  const uint64_t iova = options.access.any(kZeroBased) ? 0 : options.iova;
  if (iova + (*length - 1) < iova) return Error{EINVAL, "a region that wraps around"};

  std::unique_ptr<PhysicalRegion> region(new PhysicalRegion(table));
  region->iova_ = iova;
  region->length_ = *length;
  if (Status status = region->pin(runs, options.access); !status) return status.error();
  UROCE_ASSERT(region->runs_.runs.back().end == *length);
  const Access local = region->pins_.readable() ? kLocalRead : Access{};
  const bool windows = options.access.any(kWindowBind);
  const Status made = region->entry_.publish(table, {.kind = RegionKind::kPhysical,
                                                     .layout = Layout::kSegments,
                                                     .cold = table.cold(*length),
                                                     .domain = options.domain,
                                                     .access = (options.access & kKept) | local,
                                                     .iova = iova,
                                                     .length = *length,
                                                     .memory = &region->runs_,
                                                     .object = windows ? region.get() : nullptr});
  if (made.ok()) return region;
  region->pins_.release();
  return made.error();
}

Status PhysicalRegion::pin(std::span<const BusRange> runs, Access access) {
  pins_.reserve(runs.size());
  runs_.runs.reserve(runs.size());
  uint64_t end = 0;
  for (const BusRange& run : runs) {
    std::byte* const data = pins_.add(run.address, run.length, access);
    if (data == nullptr) {
      pins_.release();
      return Error{EFAULT, "a run is not in one mapping, or its direction forbids it"};
    }
    end += run.length;
    runs_.runs.push_back({.end = end, .data = data});
  }
  return {};
}

Status PhysicalRegion::end() {
  {
    const std::lock_guard guard(static_cast<RegionObject&>(*this));
    if (windows != 0) return Error{EBUSY, "windows are bound over the region"};
    const RegionBinding bound = table_.read_entry(key());
    if (!entry_.published() || bound.kind != RegionKind::kPhysical || bound.key != key())
      return Error{EINVAL, "no such region"};
    entry_.unpublish();
  }
  table_.wait_for_grace();
  pins_.release();
  entry_.give_back();
  return {};
}

}  // namespace uroce::mem
