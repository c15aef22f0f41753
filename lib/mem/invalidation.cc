#include "mem/invalidation.h"

#include <cassert>

#include "mem/fast_region.h"

namespace uroce::mem {

namespace {

bool can_be_invalidated(RegionKind kind, Invalidation::Origin) { return kind == RegionKind::kFast; }

/// Access before state, so that an unbound key says that it is unbound, whatever is asked of it.
constexpr Access kAnything{UINT32_MAX};

bool refused(const RegionBinding& found, MemoryKey key, const KeyUser& user, Invalidation::Origin origin) {
  return found.kind == RegionKind::kNone || found.key != key || found.domain != user.domain ||
         !can_be_invalidated(found.kind, origin) || !found.bound;
}

}  // namespace

bool Invalidation::refuses(const RegionTable& table, MemoryKey key, const KeyUser& user, Origin origin) {
  return refused(table.read_entry(key), key, user, origin);
}

Invalidation::Answer Invalidation::begin(RegionTable& table, MemoryKey key, const KeyUser& user,
                                         Origin origin) {
  assert(!pending_);
  const RegionBinding found = table.read_entry(key);
  if (refused(found, key, user, origin)) return Answer::kRefused;
  auto& region = static_cast<FastRegion&>(*found.object);
  if (!region.try_lock()) return Answer::kBusy;
  // Only now nobody changes it; it may be another's, or nobody's, meanwhile.
  const bool right = !refused(table.read_entry(key), key, user, origin) && region.windows == 0;
  if (right) {
    region.unbind();
    table.write_entry({.key = key,
                       .kind = found.kind,
                       .bound = false,
                       .domain = found.domain,
                       .access = kAnything,
                       .object = &region});
  }
  region.unlock();
  if (!right) return Answer::kRefused;
  key_ = key;
  pending_ = true;
  if (table.grace_period() != nullptr) table.grace_period()->begin(ticket_);
  return over(table) ? Answer::kOver : Answer::kPending;
}

bool Invalidation::over(RegionTable& table) {
  if (!pending_) return true;
  if (table.grace_period() != nullptr && !table.grace_period()->over(ticket_)) return false;
  pending_ = !finish(table);
  return !pending_;
}

/// False when somebody else has the region just now.
bool Invalidation::finish(RegionTable& table) const {
  const RegionBinding found = table.read_entry(key_);
  if (found.kind != RegionKind::kFast || found.key != key_) return true;  // it has ended
  auto& region = static_cast<FastRegion&>(*found.object);
  if (!region.try_lock()) return false;
  if (table.read_entry(key_).object == &region && region.state_ == FastRegion::State::kInvalidating)
    region.let_go();
  region.unlock();
  return true;
}

}  // namespace uroce::mem
