#include "mem/regions/key_breaking.h"

#include "mem/keys/region_object.h"
#include "mem/regions/window.h"

namespace uroce::mem {

Invalidation::Answer break_key(RegionTable& table, MemoryKey key, Invalidation& invalidation) {
  const RegionBinding found = table.read_entry(key);
  if (found.key != key || !found.bound) return Invalidation::Answer::kRefused;
  const KeyUser user{.domain = found.domain, .queue_pair = found.queue_pair};
  if (found.kind != RegionKind::kWindow1) return invalidation.begin(table, key, user);
  // Bound to nothing, under the same key.
  return invalidation.begin_bind(table, {.window = key, .key = key, .type1 = true}, user);
}

bool has_windows(const RegionTable& table, MemoryKey key) {
  const RegionBinding found = table.read_entry(key);
  if (found.key != key || found.object == nullptr || !found.object->try_lock()) return false;
  const bool has = table.read_entry(key).object == found.object && found.object->windows != 0;
  found.object->unlock();
  return has;
}

}  // namespace uroce::mem
