#include "mem/regions/advice.h"

#include <cerrno>

namespace uroce::mem {

namespace {

Status check(const RegionBinding& region, DomainId domain, Advice advice, const AdvisedRange& range) {
  if (region.kind == RegionKind::kNone || region.key != range.lkey) return Error{ENOENT, "no such region"};
  if (region.kind != RegionKind::kUser) return Error{EINVAL, "the key is not that of a user region"};
  if (region.domain != domain) return Error{EPERM, "a region of another protection domain"};
  if (advice == Advice::kPrefetchWrite && !region.access.any(kWriting))
    return Error{EPERM, "a region without a right to write"};
  const uint64_t offset = range.address - region.iova;
  if (range.address < region.iova || offset > region.length || range.length > region.length - offset)
    return Error{EFAULT, "a range outside of its region"};
  return {};
}

}  // namespace

Status advise(const RegionTable& table, DomainId domain, Advice advice,
              std::span<const AdvisedRange> ranges) {
  for (const AdvisedRange& range : ranges) {
    if (Status status = check(table.read_entry(range.lkey), domain, advice, range); !status) return status;
  }
  if (advice == Advice::kPrefetchPresent) return {};
  for (const AdvisedRange& range : ranges) {
    const RegionBinding region = table.read_entry(range.lkey);
    // Again, as it may have changed meanwhile.
    if (Status status = check(region, domain, advice, range); !status) return status;
    const std::byte* first = static_cast<std::byte*>(region.memory) + (range.address - region.iova);
    if (range.length != 0 && !table.probe(first, range.length, advice == Advice::kPrefetchWrite))
      return Error{EFAULT, "some of the memory is not there, or not writable"};
  }
  return {};
}

}  // namespace uroce::mem
