#pragma once

#include "base/values/identifiers.h"
#include "base/values/result.h"
#include "mem/keys/region_table.h"

namespace uroce::mem {

// A region of the whole address space without memory of its own (ibv_alloc_null_mr(3)): what is read is
// zeros, and what is written is discarded. Local access only. Control path.

/// EINVAL: no domain. ENOMEM.
Result<MemoryKey> make_null_region(RegionTable& table, DomainId domain);
/// Returns after the grace period. EINVAL: no such region.
Status end_null_region(RegionTable& table, MemoryKey lkey);

}  // namespace uroce::mem
