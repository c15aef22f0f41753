#include "mem/region_table.h"

#include <cassert>
#include <cerrno>
#include <optional>
#include <string>

#include "mem/memory_probe.h"

namespace uroce::mem {
namespace {

bool wraps(uint64_t start, uint64_t length) { return start + (length - 1) < start; }

Status check(const UserRegion& region, uint64_t iova) {
  if (Status rights = check_rights(region.access); !rights.ok()) return rights;
  if (region.domain == DomainId{}) return Error{EINVAL, "a region needs a protection domain"};
  if (region.length == 0) return Error{EINVAL, "a region of no bytes"};
  if (wraps(reinterpret_cast<uint64_t>(region.address), region.length) || wraps(iova, region.length)) {
    return Error{EINVAL, "a region that wraps around the end of the address space"};
  }
  return {};
}

/// The eight bits that tell the generations of an index apart. Neighbours start differently, so that a key
/// whose index is wrong by little does not resolve either.
MemoryKey next_key(uint32_t index, MemoryKey previous) {
  const bool first = previous.value == 0;
  const uint32_t key = first ? index * 37 : uint32_t{previous.key()} + 1;
  return MemoryKey::make(index, static_cast<uint8_t>(key));
}

}  // namespace

RegionTable::RegionTable(const Options& options)
    : space_(options.entries_max),
      options_(options),
      locked_memory_(options.locked_memory != nullptr ? *options.locked_memory : LockedMemory::of_process()) {
}

RegionTable::~RegionTable() {
  for (uint32_t index = 1; index < space_.backed(); ++index) {
    const RegionBinding binding = entry(index).read();
    if (binding.kind == RegionKind::kUser)
      locked_memory_.release(static_cast<std::byte*>(binding.memory), binding.length);
  }
}

Result<RegionKeys> RegionTable::register_user(const UserRegion& region) {
  const uint64_t iova = region.access.any(kZeroBased) ? 0 : region.iova;
  if (Status status = check(region, iova); !status.ok()) return status.error();
  if (Status status = locked_memory_.charge(region.address, region.length); !status.ok())
    return status.error();
  if (!probe_memory(region.address, region.length, region.access.any(kWriting))) {
    locked_memory_.release(region.address, region.length);
    return Error{EFAULT, "some of the memory is not there, or not writable"};
  }
  const Result<MemoryKey> key = make_entry({.kind = RegionKind::kUser,
                                            .cold = cold(region.length),
                                            .domain = region.domain,
                                            .access = (region.access & kChecked) | kLocalRead,
                                            .iova = iova,
                                            .length = region.length,
                                            .memory = region.address});
  if (!key) {
    locked_memory_.release(region.address, region.length);
    return key.error();
  }
  return RegionKeys{.lkey = *key, .rkey = *key};
}

Result<MemoryKey> RegionTable::make_entry(RegionBinding binding) {
  const std::optional<uint32_t> index = space_.allocate();
  if (!index) return Error{ENOMEM, "no room for one more region beside " + std::to_string(regions())};
  const RegionBinding previous = entry(*index).read();
  assert(previous.kind == RegionKind::kNone);
  binding.key = next_key(*index, previous.key);
  entry(*index).write(binding);
  return binding.key;
}

Status RegionTable::deregister(MemoryKey lkey) {
  RegionBinding gone;
  {
    const std::lock_guard lock(writers_);
    gone = read_entry(lkey);
    if (gone.kind != RegionKind::kUser || gone.key != lkey) return Error{EINVAL, "no such region"};
    write_entry({.key = lkey});
  }
  // Not under the lock: a poller must not wait for one who waits for it.
  wait_for_grace();
  locked_memory_.release(static_cast<std::byte*>(gone.memory), gone.length);
  give_back(lkey);
  return {};
}

/// One check after the other, for what is not simple and for what is wrong.
Binding RegionTable::resolve_in_order(MemoryKey key, const KeyUser& user, uint64_t iova, uint64_t length,
                                      Access needed) const {
  const RegionBinding bound = entry(key.index()).read();
  if (bound.kind == RegionKind::kNone || bound.key != key) return Binding(Fault::kKey);
  if (bound.domain != user.domain && !(bound.kind == RegionKind::kReservedLKey && user.reserved_lkey))
    return Binding(Fault::kDomain);
  if (!bound.access.covers(needed)) return Binding(Fault::kAccess);
  if (!bound.bound) return Binding(Fault::kState);
  if (iova < bound.iova) return Binding(Fault::kBounds);
  const uint64_t offset = iova - bound.iova;
  if (offset > bound.length || length > bound.length - offset) return Binding(Fault::kBounds);
  if (bound.queue_pair != QpNumber{} && bound.queue_pair != user.queue_pair)
    return Binding(Fault::kQueuePair);
  if (bound.layout == Layout::kBus) return resolve_on_bus(iova, length, needed);
  return {bound.memory, bound.offset + offset, length, bound.layout, bound.page_shift, bound.cold};
}

/// Cold or not, nobody knows: what is mapped for DMA is mostly small.
Binding RegionTable::resolve_on_bus(uint64_t address, uint64_t length, Access needed) const {
  const Piece piece =
      options_.bus_space != nullptr ? options_.bus_space->translate(address, length, needed) : Piece{};
  if (piece.data == nullptr) return Binding(Fault::kBounds);
  return {piece.data, 0, length, Layout::kContiguous, 0, cold(length)};
}

}  // namespace uroce::mem
