// A key that is free already stays free when it is invalidated, and the request succeeds, as with rxe, rdmavt
// and mlx5. Otherwise a peer that sends the key while its owner invalidates it ends the connection. A second
// invalidation of a region waits for the first, one of a window for a grace period, so each completion says
// what it always says. Cost: a program that invalidates twice by mistake gets no error.
#include "mem/regions/invalidation.h"

#include "base/process/probe.h"
#include "base/values/contract.h"
#include "mem/regions/fast_region.h"

namespace uroce::mem {

namespace {

bool can_be_invalidated(RegionKind kind) {
  return kind == RegionKind::kFast || kind == RegionKind::kWindow2A || kind == RegionKind::kWindow2B;
}

bool refused(const RegionBinding& found, MemoryKey key, const KeyUser& user) {
  return found.kind == RegionKind::kNone || found.key != key || found.domain != user.domain ||
         !can_be_invalidated(found.kind) ||
         (found.queue_pair != QpIdentity{} && found.queue_pair != user.queue_pair);
}

}  // namespace

bool Invalidation::refuses(const RegionTable& table, MemoryKey key, const KeyUser& user) {
  return refused(table.read_entry(key), key, user);
}

Invalidation::Answer Invalidation::begin(RegionTable& table, MemoryKey key, const KeyUser& user) {
  UROCE_ASSERT(!pending_);
  ended_binding_ = false;
  const RegionBinding found = table.read_entry(key);
  if (refused(found, key, user)) return Answer::kRefused;
  if (!found.object->try_lock()) return Answer::kBusy;
  // From here on no other thread changes it; meanwhile it may have ended, or be another's.
  Answer answer = Answer::kRefused;
  const RegionBinding now = table.read_entry(key);
  if (now.object == found.object && !refused(now, key, user)) answer = unbind(table, now);
  ended_binding_ = answer == Answer::kPending && now.bound;
  if (ended_binding_) UROCE_PROBE2(key_invalidated, key.value, user.domain.value);
  found.object->unlock();
  return answer == Answer::kPending ? wait(table, key) : answer;
}

/// Under the lock. kPending: it is free, and a poller may still be at what it was bound to: also when another
/// queue pair has just ended the binding of a window.
Invalidation::Answer Invalidation::unbind(RegionTable& table, const RegionBinding& found) {
  if (is_window(found.kind)) {
    const bool unbound = !found.bound || static_cast<Window*>(found.object)->try_unbind();
    return unbound ? Answer::kPending : Answer::kBusy;
  }
  auto& region = static_cast<FastRegion&>(*found.object);
  if (!found.bound) return region.state_ == FastRegion::State::kFree ? Answer::kOver : Answer::kBusy;
  if (region.windows != 0) return Answer::kRefused;
  region.unbind();
  table.write_entry(unbound_entry(found.key, found.kind, found.domain, found.object));
  return Answer::kPending;
}

Invalidation::Answer Invalidation::begin_bind(RegionTable& table, const WindowBinding& wanted,
                                              const KeyUser& user) {
  UROCE_ASSERT(!pending_);
  switch (bind_window(table, wanted, user)) {
    case Bound::kDone:
      return Answer::kOver;
    case Bound::kAnew:
      return wait(table, wanted.key);
    case Bound::kBusy:
      return Answer::kBusy;
    case Bound::kRefused:
      break;
  }
  return Answer::kRefused;
}

Invalidation::Answer Invalidation::wait(RegionTable& table, MemoryKey key) {
  UROCE_ASSERT(!pending_);
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

/// False when another thread has the region just now.
bool Invalidation::finish(RegionTable& table) const {
  const RegionBinding found = table.read_entry(key_);
  if (found.kind != RegionKind::kFast || found.key != key_) return true;  // it has ended, or is a window
  auto& region = static_cast<FastRegion&>(*found.object);
  if (!region.try_lock()) return false;
  if (table.read_entry(key_).object == &region && region.state_ == FastRegion::State::kInvalidating)
    region.let_go();
  region.unlock();
  return true;
}

}  // namespace uroce::mem
