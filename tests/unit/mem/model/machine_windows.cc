// The machine's windows, and what ends bindings.
#include <algorithm>
#include <vector>

#include "machine.h"
#include "mem/regions/invalidation.h"

namespace uroce::mem {
namespace {

constexpr RegionKind kKinds[] = {RegionKind::kWindow1, RegionKind::kWindow2A, RegionKind::kWindow2B};
constexpr Access kRights[] = {Access{},
                              kRemoteRead,
                              kRemoteWrite,
                              kRemoteWrite | kRemoteRead,
                              kRemoteWrite | kRemoteRead | kRemoteAtomic,
                              kRemoteRead | kZeroBased,
                              kLocalWrite};  // the last is refused, and of type 1 the one before, too

void unbind(ReferenceRegion& region) {
  region.bound = false;
  region.readable = true;
  region.access = Access(UINT32_MAX);
  region.queue_pair = {};
  region.parent.reset();
}

}  // namespace

std::string Machine::make_window(const Numbers& n) {
  const RegionKind kind = kKinds[n[0] % std::size(kKinds)];
  auto made = Window::make(table_, domain_of(n[1]), kind);
  if (!made) return "Window::make failed";
  ReferenceRegion region{
      .kind = kind, .key = (*made)->first_key(), .domain = domain_of(n[1]), .bytes = {}, .mappings = {}};
  unbind(region);
  add(std::move(region), {.physical = {}, .fmr = {}, .fast = {}, .window = std::move(*made)});
  return {};
}

bool Machine::may_be_bound(const ReferenceRegion& window, const WindowBinding& wanted, const KeyUser& user,
                           size_t which) const {
  const bool type1 = window.kind == RegionKind::kWindow1;
  if (wanted.type1 != type1 || window.domain != user.domain || wanted.key.index() != window.key.index())
    return false;
  const Access possible = type1 ? kWindowRights : kWindowRights | kZeroBased;
  if (!possible.covers(wanted.access)) return false;
  if (type1 && wanted.length == 0) return true;
  if (wanted.length == 0 || (!type1 && window.bound)) return false;
  const ReferenceRegion& region = reference_.regions[which];
  if (!region.live || !region.bound || region.key != wanted.region || region.domain != window.domain)
    return false;
  const bool can = region.kind == RegionKind::kUser || region.kind == RegionKind::kPhysical ||
                   region.kind == RegionKind::kFast;
  if (!can || !region.access.covers(kWindowBind) || region.access.any(kZeroBased)) return false;
  if (wanted.access.any(kWriting) && !region.access.covers(kLocalWrite)) return false;
  if (wanted.access.any(kRemoteRead | kRemoteAtomic) && !region.readable) return false;
  return wanted.address >= region.iova && wanted.address - region.iova <= region.length() &&
         wanted.length <= region.length() - (wanted.address - region.iova);
}

std::string Machine::bind_window(const Numbers& n) {
  std::vector<size_t> windows;
  std::vector<size_t> others;
  for (size_t i = 0; i < reference_.regions.size(); ++i) {
    const ReferenceRegion& region = reference_.regions[i];
    if (is_window(region.kind) && region.live) windows.push_back(i);
    // Mostly those that can have windows.
    if (region.access.any(kWindowBind) || n[1] % 4 == 0) others.push_back(i);
  }
  if (windows.empty() || others.empty()) return {};
  const size_t which = windows[n[0] % windows.size()];
  const size_t parent = others[(n[1] >> 8) % others.size()];
  ReferenceRegion& window = reference_.regions[which];
  const ReferenceRegion& region = reference_.regions[parent];
  const uint64_t skip = n[2] % (region.length() + 2);
  WindowBinding wanted{.window = window.key,
                       .key = MemoryKey::make(window.key.index(), static_cast<uint8_t>(n[3])),
                       .region = region.key,
                       .access = kRights[n[4] % std::size(kRights)],
                       .address = region.iova + skip,
                       .length = n[5] % (region.length() + 2 - std::min(skip, region.length())),
                       .type1 = window.kind == RegionKind::kWindow1};
  const uint32_t spoil = n[5] >> 24;
  if (spoil == 0) wanted.type1 = !wanted.type1;
  if (spoil == 1) wanted.key.value ^= 0x100;
  if (spoil == 2) wanted.region.value ^= 1;
  if (spoil == 3) wanted.address -= skip + 1;
  const KeyUser user{.domain = spoil == 4 ? domain_of(n[4] >> 8) : window.domain,
                     .queue_pair = queue_pair_of(n[4] >> 16)};
  const bool right = may_be_bound(window, wanted, user, parent);
  const Bound expected = !right ? Bound::kRefused : window.bound ? Bound::kAnew : Bound::kDone;
  if (mem::bind_window(table_, wanted, user) != expected) return "bind_window: unexpected outcome";
  if (!right) return {};
  unbind(window);
  window.key = wanted.key;
  if (wanted.length == 0) return {};
  window.bound = true;
  window.readable = false;  // locally nothing is allowed
  window.access = wanted.access & kWindowRights;
  window.iova = wanted.access.any(kZeroBased) ? 0 : wanted.address;
  window.bytes = part_of(region.bytes, wanted.address - region.iova, wanted.length);
  window.parent = parent;
  if (window.kind == RegionKind::kWindow2B) window.queue_pair = user.queue_pair;
  return {};
}

std::string Machine::invalidate(const Numbers& n) {
  if (reference_.regions.empty()) return {};
  const size_t which = n[0] % reference_.regions.size();
  ReferenceRegion& region = reference_.regions[which];
  MemoryKey key = region.key;
  if (n[1] % 4 == 0) key.value ^= 1;
  const KeyUser user{.domain = domain_of(n[2]), .queue_pair = queue_pair_of(n[3])};
  // What is free already is invalidated by any queue pair of the domain.
  const bool free = !region.bound;
  const bool can = (region.kind == RegionKind::kFast && (free || !reference_.covered(which))) ||
                   region.kind == RegionKind::kWindow2A ||
                   (region.kind == RegionKind::kWindow2B && (free || user.queue_pair == region.queue_pair));
  const bool right = can && region.live && key == region.key && user.domain == region.domain;
  Invalidation invalidation;
  const auto answer = invalidation.begin(table_, key, user);
  if (answer != (right ? Invalidation::Answer::kOver : Invalidation::Answer::kRefused))
    return "Invalidation::begin: unexpected answer";
  if (right && !free) unbind(region);
  return {};
}

}  // namespace uroce::mem
