#include "reference.h"

#include <algorithm>
#include <numeric>

namespace uroce::mem {

bool ReferenceMapping::admits(Access access) const {
  if (access.any(kWriting) && !writable()) return false;
  const bool must_read = access.any(kRemoteRead | kRemoteAtomic) || !access.any(kWriting);
  return !must_read || readable();
}

uint64_t ReferenceRegion::length() const {
  return std::accumulate(bytes.begin(), bytes.end(), uint64_t{0},
                         [](uint64_t sum, const Stretch& stretch) { return sum + stretch.length; });
}

void append(std::vector<Stretch>& bytes, Stretch stretch) {
  if (stretch.length == 0) return;
  if (!bytes.empty() && bytes.back().offset + bytes.back().length == stretch.offset) {
    bytes.back().length += stretch.length;
  } else {
    bytes.push_back(stretch);
  }
}

std::vector<Stretch> part_of(const std::vector<Stretch>& bytes, uint64_t skip, uint64_t length) {
  std::vector<Stretch> part;
  for (const Stretch& stretch : bytes) {
    const uint64_t skipped = std::min<uint64_t>(skip, stretch.length);
    const uint64_t taken = std::min(stretch.length - skipped, length);
    append(part, {stretch.offset + skipped, taken});
    skip -= skipped;
    length -= taken;
  }
  return part;
}

bool Reference::covered(size_t region) const {
  return std::ranges::any_of(regions, [&](const ReferenceRegion& other) {
    return other.live && other.bound && other.parent == region;
  });
}

bool Reference::pinned(size_t mapping) const {
  return std::ranges::any_of(regions, [&](const ReferenceRegion& region) {
    return region.live && region.bound &&
           std::ranges::find(region.mappings, mapping) != region.mappings.end();
  });
}

size_t Reference::find_mapping(uint64_t address, uint64_t length) const {
  const auto found = std::ranges::find_if(mappings, [&](const ReferenceMapping& mapping) {
    return mapping.live && address >= mapping.bus && address - mapping.bus <= mapping.memory.length &&
           length <= mapping.memory.length - (address - mapping.bus);
  });
  return static_cast<size_t>(found - mappings.begin());
}

Answer Reference::resolve_on_bus(uint64_t address, uint64_t length, Access needed) const {
  const size_t found = find_mapping(address, length);
  if (found == mappings.size()) return {.fault = Fault::kBounds, .bytes = {}};
  const ReferenceMapping& mapping = mappings[found];
  if (!(needed.any(kWriting) ? mapping.writable() : mapping.readable()))
    return {.fault = Fault::kBounds, .bytes = {}};
  Answer answer;
  append(answer.bytes, {mapping.memory.offset + (address - mapping.bus), length});
  return answer;
}

Answer Reference::resolve(MemoryKey key, const KeyUser& user, uint64_t address, uint64_t length,
                          Access needed) const {
  const auto fault = [](Fault what) { return Answer{.fault = what, .bytes = {}}; };
  const auto found = std::ranges::find_if(
      regions, [&](const ReferenceRegion& region) { return region.live && region.key == key; });
  if (found == regions.end()) return fault(Fault::kKey);
  const ReferenceRegion& region = *found;
  if (region.domain != user.domain) return fault(Fault::kDomain);
  const Access granted = region.access | (region.readable ? kLocalRead : Access{});
  if (!granted.covers(needed)) return fault(Fault::kAccess);
  if (!region.bound) return fault(Fault::kState);
  if (region.kind == RegionKind::kDma) return resolve_on_bus(address, length, needed);
  if (address < region.iova || address - region.iova > region.length() ||
      length > region.length() - (address - region.iova)) {
    return fault(Fault::kBounds);
  }
  if (region.queue_pair != QpIdentity{} && region.queue_pair != user.queue_pair)
    return fault(Fault::kQueuePair);
  return {.fault = Fault::kNone, .bytes = part_of(region.bytes, address - region.iova, length)};
}

}  // namespace uroce::mem
