#pragma once

#include "base/values/identifiers.h"
#include "mem/keys/region_table.h"
#include "mem/regions/invalidation.h"

namespace uroce::mem {

/// Takes the binding of a key away from all of its users, as a test of error paths wants: a window, or a
/// fast-registration region, is unbound as if its own queue pair had invalidated it, and its maker can bind
/// it anew or end it. In a turn; answers as those of Invalidation::begin(), which goes on with
/// `invalidation`. kRefused: no such key, of another kind, not bound, or windows are bound over it.
Invalidation::Answer break_key(RegionTable& table, MemoryKey key, Invalidation& invalidation);

/// Windows are bound over the region with that key. In a turn.
bool has_windows(const RegionTable& table, MemoryKey key);

}  // namespace uroce::mem
