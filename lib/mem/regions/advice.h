#pragma once

#include <cstdint>
#include <span>

#include "base/values/identifiers.h"
#include "mem/keys/region_table.h"

namespace uroce::mem {

/// What a program says about how it is going to use its regions.
enum class Advice : uint8_t {
  kPrefetch,         // will be read
  kPrefetchWrite,    // will be written
  kPrefetchPresent,  // as far as it is there already
};

struct AdvisedRange {
  MemoryKey lkey;
  uint64_t address = 0;  // as the region's users name it
  uint64_t length = 0;
};

/// Brings the pages of user regions in, as an access would, before the next access finds them missing
/// (nothing is pinned, so they may have been swapped out). Control path. Does nothing unless all ranges pass.
/// ENOENT: no such key. EINVAL: not of a user region. EPERM: of another domain, or to be written without the
/// right. EFAULT: not inside the region, or a page is not there.
Status advise(const RegionTable& table, DomainId domain, Advice advice, std::span<const AdvisedRange> ranges);

}  // namespace uroce::mem
