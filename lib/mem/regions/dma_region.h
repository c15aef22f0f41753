#pragma once

#include "base/values/identifiers.h"
#include "base/values/result.h"
#include "mem/keys/region_table.h"

namespace uroce::mem {

// Regions of everything that is mapped for DMA: an address of theirs is a bus address, and the table's bus
// space says what it means at the moment of use. Control path.

/// EINVAL: any right beyond writing locally, or no domain. ENOMEM.
Result<MemoryKey> make_dma_region(RegionTable& table, DomainId domain, Access access);
/// Returns after the grace period. EINVAL: no such region.
Status end_dma_region(RegionTable& table, MemoryKey lkey);

/// The reserved L_Key: the same in every domain, always with the right to write locally, never remotely, and
/// only for queue pairs that were made for it. One for a device; it lives as long as the table.
Result<MemoryKey> make_reserved_lkey(RegionTable& table);

}  // namespace uroce::mem
