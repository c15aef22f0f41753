// Local write among the rights of a window is ignored, as hardware does: programs and rdma-core's tests ask
// for it. A bind of type 1 waits as LOCAL_INV does, because it may take a binding away from pollers that use
// it. One of type 2 is executed when its turn comes. LOCAL_INV begins when all before it is complete, and
// nothing behind it begins before it is.
#include "mem/regions/window.h"

#include <cerrno>

#include "base/values/contract.h"
#include "mem/rights/rights.h"

namespace uroce::mem {

namespace {

/// What can be said without the region.
bool may_be_bound(const RegionBinding& window, const WindowBinding& wanted, const KeyUser& user) {
  if (!is_window(window.kind) || (window.kind == RegionKind::kWindow1) != wanted.type1) return false;
  if (window.domain != user.domain || wanted.key.index() != wanted.window.index()) return false;
  if (!wanted.type1)
    return !window.bound && wanted.length != 0 && (kWindowRights | kZeroBased).covers(wanted.access);
  return kWindowRights.covers(wanted.access);
}

bool can_have_windows(RegionKind kind) {
  return kind == RegionKind::kUser || kind == RegionKind::kPhysical || kind == RegionKind::kFast;
}

/// IBTA C10-72 to C10-75.
bool fits(const RegionBinding& region, const WindowBinding& wanted, DomainId domain) {
  if (!can_have_windows(region.kind) || region.key != wanted.region || region.domain != domain) return false;
  if (!region.access.covers(kWindowBind) || region.access.any(kZeroBased)) return false;
  if (!region.bound || region.object == nullptr) return false;
  if (!permits(region.access, wanted.access & kWindowRights)) return false;
  const uint64_t offset = wanted.address - region.iova;
  return wanted.address >= region.iova && offset <= region.length && wanted.length <= region.length - offset;
}

RegionBinding over(const RegionBinding& region, const WindowBinding& wanted, const RegionBinding& window,
                   const KeyUser& user) {
  RegionBinding binding = region;
  binding.key = wanted.key;
  binding.kind = window.kind;
  binding.queue_pair = window.kind == RegionKind::kWindow2B ? user.queue_pair : QpIdentity{};
  binding.access = wanted.access & kWindowRights;
  binding.iova = wanted.access.any(kZeroBased) ? 0 : wanted.address;
  binding.length = wanted.length;
  binding.offset = region.offset + (wanted.address - region.iova);
  binding.object = window.object;
  if (region.layout == Layout::kContiguous) {  // quicker to look up without an offset
    binding.memory = static_cast<std::byte*>(region.memory) + binding.offset;
    binding.offset = 0;
  }
  return binding;
}

}  // namespace

Result<std::unique_ptr<Window>> Window::make(RegionTable& table, DomainId domain, RegionKind kind) {
  UROCE_ASSERT(is_window(kind));
  if (domain == DomainId{}) return Error{EINVAL, "a window needs a protection domain"};
  std::unique_ptr<Window> window(new Window(table));
  const RegionBinding unbound = unbound_entry({}, kind, domain, window.get());
  Status status = kind == RegionKind::kWindow1
                      ? window->entry_.publish(table, unbound)
                      : window->entry_.publish_for_consumer(table, unbound, window->history_);
  if (!status) return status.error();
  return window;
}

void Window::end() {
  if (!entry_.published()) return;
  lock();
  if (parent_ != nullptr) parent_->lock();
  move_to(nullptr, {.key = table_.read_entry(first_key()).key});
  entry_.unpublish();
  unlock();
  // Not under the lock: a poller must not wait for a thread that waits for it.
  table_.wait_for_grace();
  entry_.give_back(&history_);
}

/// The caller has locked both regions, the one that is left and the one that it comes to, which are released.
void Window::move_to(RegionObject* region, const RegionBinding& binding) {
  RegionObject* const left = parent_;
  if (region != nullptr) ++region->windows;
  table_.write_entry(binding);
  parent_ = region;
  UROCE_ASSERT(left == nullptr || left->windows > 0);
  if (left != nullptr) --left->windows;
  if (left != nullptr) left->unlock();
  if (region != nullptr && region != left) region->unlock();
}

Bound Window::bind(const WindowBinding& wanted, const KeyUser& user) {
  const RegionBinding now = table_.read_entry(wanted.window);
  if (now.object != this || !may_be_bound(now, wanted, user)) return Bound::kRefused;
  UROCE_ASSERT(now.bound == (parent_ != nullptr));
  const Bound done = now.bound ? Bound::kAnew : Bound::kDone;
  RegionObject* next = nullptr;
  if (wanted.length != 0) {
    const RegionBinding region = table_.read_entry(wanted.region);
    if (!fits(region, wanted, now.domain)) return Bound::kRefused;
    next = region.object;
    if (!next->try_lock()) return Bound::kBusy;
  }
  if (parent_ != nullptr && parent_ != next && !parent_->try_lock()) {
    if (next != nullptr) next->unlock();
    return Bound::kBusy;
  }
  if (next == nullptr) {
    move_to(nullptr, unbound_entry(wanted.key, now.kind, now.domain, this));
    return done;
  }
  // From here on no other thread changes the region; meanwhile it may have ended, or be another's.
  const RegionBinding region = table_.read_entry(wanted.region);
  if (region.object != next || !fits(region, wanted, now.domain)) {
    next->unlock();
    if (parent_ != nullptr && parent_ != next) parent_->unlock();
    return Bound::kRefused;
  }
  RegionBinding binding = over(region, wanted, now, user);
  binding.cold = table_.cold(wanted.length);
  history_.add(wanted.key.key());
  move_to(next, binding);
  return done;
}

bool Window::try_unbind() {
  UROCE_ASSERT(parent_ != nullptr);
  if (!parent_->try_lock()) return false;
  const RegionBinding now = table_.read_entry(first_key());
  move_to(nullptr, unbound_entry(now.key, now.kind, now.domain, this));
  return true;
}

Bound bind_window(RegionTable& table, const WindowBinding& wanted, const KeyUser& user) {
  const RegionBinding found = table.read_entry(wanted.window);
  if (!is_window(found.kind)) return Bound::kRefused;
  auto& window = static_cast<Window&>(*found.object);
  if (!window.try_lock()) return Bound::kBusy;
  const Bound bound = window.bind(wanted, user);
  window.unlock();
  return bound;
}

}  // namespace uroce::mem
