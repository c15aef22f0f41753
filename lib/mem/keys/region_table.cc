// Decision: an index is any candidate with the same probability (base/tables/index_order.h): those never
// used, and those freed before the last 1024. At least 22 bits of a new key cannot be told from keys of other
// indexes. A wrong guess costs a peer its connection.
//
// Decision: the low eight bits that the stack gives follow an order of all 256 for each index (key_bytes.h).
// A peer that has seen k bytes of an index guesses the next with 1 / (256 - k). Cost: six hashes, 0.1 us, for
// a registration.
//
// Decision: indexes whose low bits the consumer chooses (fast registration, windows of type 2) are a pool of
// their own. They come back to such objects only, unless no other index is left. A resting one remembers
// which bytes it has had.
//
// Decision: rkey and lkey of a region are the same key, as two would double the table. What a program writes
// there counts only for the low eight bits of a fast-registration region.
//
// Decision: a segment that is named by bus address is looked up as a whole with every part of it
// (resolve_in_segment()). So a WRITE and a READ across two mappings fail alike.
#include "mem/keys/region_table.h"

#include <bit>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>

#include "base/values/contract.h"
#include "mem/keys/region_object.h"
#include "mem/process/mapping_check.h"

namespace uroce::mem {
namespace {

/// A user region that may have windows over it.
class UserObject final : public RegionObject {};

std::unique_ptr<UserObject> object_for(Access access) {
  return access.any(kWindowBind) ? std::make_unique<UserObject>() : nullptr;
}

bool is_there(const std::byte* address, uint64_t length, Access access) {
  return length == 0 || check_memory(address, length, access.any(kWriting));
}

Status not_there() { return Error{EFAULT, "some of the memory is not there, or not writable"}; }

constexpr const char* kWindowsOver = "windows are bound over the region";

bool wraps(uint64_t start, uint64_t length) { return length != 0 && start + (length - 1) < start; }

Status check(const UserRegion& region, uint64_t iova) {
  if (Status rights = check_rights(region.access); !rights.ok()) return rights;
  if (region.domain == DomainId{}) return Error{EINVAL, "a region needs a protection domain"};
  if (wraps(reinterpret_cast<uint64_t>(region.address), region.length) || wraps(iova, region.length)) {
    return Error{EINVAL, "a region that wraps around the end of the address space"};
  }
  return {};
}

/// Pools of IndexSpace. An index whose key bytes the consumer has chosen does not come back to a region whose
/// key bytes are the stack's: the consumer may have used any of them.
enum Pool : size_t { kOfStack, kOfConsumer };

Pool pool_of(RegionKind kind) {
  const bool chosen =
      kind == RegionKind::kFast || kind == RegionKind::kWindow2A || kind == RegionKind::kWindow2B;
  return chosen ? kOfConsumer : kOfStack;
}

}  // namespace

RegionTable::RegionTable(const Options& options)
    : space_(options.entries_max, options.pages, {.key = options.key}),
      key_bytes_(options.key.value_or(HashKey{})),
      options_(options),
      locked_memory_(options.locked_memory != nullptr ? *options.locked_memory : LockedMemory::of_process()) {
  UROCE_ASSERT(std::has_single_bit(options.entries_max) && options.entries_max <= 1u << 24);
}

RegionTable::~RegionTable() {
  for (uint32_t index = 1; index < space_.backed(); ++index) {
    const RegionBinding binding = entry(index).read();
    if (binding.kind != RegionKind::kUser) continue;
    locked_memory_.release(static_cast<std::byte*>(binding.memory), binding.length);
    delete static_cast<UserObject*>(binding.object);
  }
}

Result<RegionKeys> RegionTable::register_user(const UserRegion& region) {
  const uint64_t iova = region.access.any(kZeroBased) ? 0 : region.iova;
  if (Status status = check(region, iova); !status.ok()) return status.error();
  if (Status status = take_memory(region.address, region.length, region.access); !status.ok())
    return status.error();
  std::unique_ptr<UserObject> object = object_for(region.access);
  const Result<MemoryKey> key = make_entry({.kind = RegionKind::kUser,
                                            .cold = cold(region.length),
                                            .ours = region.ours,
                                            .domain = region.domain,
                                            .access = (region.access & kKept) | kLocalRead,
                                            .iova = iova,
                                            .length = region.length,
                                            .memory = region.address,
                                            .object = object.get()});
  if (!key) {
    locked_memory_.release(region.address, region.length);
    return key.error();
  }
  object.release();  // the table's, until deregister()
  return RegionKeys{.lkey = *key, .rkey = *key};
}

Result<uint32_t> RegionTable::allocate_index(size_t pool) {
  const std::optional<uint32_t> index = space_.allocate(pool);
  if (!index) return Error{ENOMEM, "no room for one more region beside " + std::to_string(regions())};
  UROCE_ASSERT(entry(*index).read().kind == RegionKind::kNone);
  return *index;
}

MemoryKey RegionTable::next_key_of(uint32_t index) const {
  const MemoryKey previous = entry(index).read().key;
  UROCE_ASSERT(previous.value == 0 || previous.index() == index);
  return previous.value == 0 ? key_bytes_.first(index) : key_bytes_.after(previous);
}

Result<MemoryKey> RegionTable::make_entry(RegionBinding binding) {
  UROCE_ASSERT(binding.kind != RegionKind::kNone && pool_of(binding.kind) == kOfStack);
  const Result<uint32_t> index = allocate_index(kOfStack);
  if (!index) return index.error();
  binding.key = next_key_of(*index);
  entry(*index).write(binding);
  return binding.key;
}

Result<MemoryKey> RegionTable::make_entry_for_consumer(RegionBinding binding, KeyHistory& history) {
  UROCE_ASSERT(pool_of(binding.kind) == kOfConsumer);
  const Result<uint32_t> index = allocate_index(kOfConsumer);
  if (!index) return index.error();
  const MemoryKey last = entry(*index).read().key;
  history = entry(*index).history();
  if (history.full()) {
    history = {};
    history.add(last.key());
  }
  binding.key = next_key_of(*index);
  UROCE_ASSERT(!history.full());  // so that there is a key left
  while (history.has(binding.key.key())) binding.key = key_bytes_.after(binding.key);
  entry(*index).write(binding);
  return binding.key;
}

void RegionTable::give_back(MemoryKey key) {
  UROCE_ASSERT(entry(key.index()).read().kind == RegionKind::kNone);
  space_.free(key.index(), kOfStack);
}

void RegionTable::give_back(MemoryKey key, const KeyHistory& history) {
  UROCE_ASSERT(entry(key.index()).read().kind == RegionKind::kNone);
  entry(key.index()).rest(key, history);
  space_.free(key.index(), kOfConsumer);
}

Status RegionTable::take_memory(std::byte* address, uint64_t length, Access access) {
  if (Status status = locked_memory_.charge(address, length, options_.memlock); !status.ok()) return status;
  if (is_there(address, length, access)) return {};
  locked_memory_.release(address, length);
  return not_there();
}

Status RegionTable::reregister(MemoryKey lkey, const RegionChange& change) {
  const RegionBinding old = read_entry(lkey);
  if (old.kind != RegionKind::kUser || old.key != lkey) return Error{EINVAL, "no such region"};
  UserRegion wanted{.domain = change.domain.value_or(old.domain),
                    .address = static_cast<std::byte*>(old.memory),
                    .length = old.length,
                    .iova = old.iova,
                    .access = change.access.value_or(old.access & kKept),
                    .ours = old.ours && !change.place};
  if (change.place) {
    wanted.address = change.place->address;
    wanted.length = change.place->length;
    wanted.iova = wanted.access.any(kZeroBased) ? 0 : reinterpret_cast<uint64_t>(wanted.address);
  } else if (wanted.access.any(kZeroBased) && !old.access.any(kZeroBased)) {
    return Error{EINVAL, "a region becomes zero-based only with a new place"};
  } else {
    wanted.access = wanted.access | (old.access & kZeroBased);
  }
  if (Status status = check(wanted, wanted.iova); !status.ok()) return status;
  if (!change.place) {
    // It is paid for; but it may have been read-only so far.
    return is_there(wanted.address, wanted.length, wanted.access) ? bind_anew(old, wanted) : not_there();
  }
  if (Status status = take_memory(wanted.address, wanted.length, wanted.access); !status.ok()) return status;
  Status done = bind_anew(old, wanted);
  // What is not used any more, or was not used after all.
  const std::byte* const left = done ? static_cast<std::byte*>(old.memory) : wanted.address;
  locked_memory_.release(left, done ? old.length : wanted.length);
  return done;
}

/// Returns after the grace period.
Status RegionTable::bind_anew(const RegionBinding& old, const UserRegion& wanted) {
  std::unique_ptr<UserObject> object = old.object == nullptr ? object_for(wanted.access) : nullptr;
  {
    const std::lock_guard lock(writers_);
    const RegionBinding now = read_entry(old.key);
    // Others may have come first, and may have what was looked up: every field that they can change counts.
    if (now.kind != RegionKind::kUser || now.key != old.key || now.domain != old.domain ||
        now.access != old.access || now.memory != old.memory || now.length != old.length ||
        now.iova != old.iova || now.object != old.object) {
      return Error{EBUSY, "the region changes already"};
    }
    std::unique_lock<RegionObject> held;
    if (now.object != nullptr) held = std::unique_lock(*now.object);
    if (now.object != nullptr && now.object->windows != 0) return Error{EBUSY, kWindowsOver};
    write_entry({.key = old.key,
                 .kind = RegionKind::kUser,
                 .cold = cold(wanted.length),
                 .ours = wanted.ours,
                 .domain = wanted.domain,
                 .access = (wanted.access & kKept) | kLocalRead,
                 .iova = wanted.iova,
                 .length = wanted.length,
                 .memory = wanted.address,
                 .object = now.object != nullptr ? now.object : object.release()});
  }
  wait_for_grace();
  return {};
}

Status RegionTable::deregister(MemoryKey lkey) {
  RegionBinding gone;
  {
    const std::lock_guard lock(writers_);
    gone = read_entry(lkey);
    if (gone.kind != RegionKind::kUser || gone.key != lkey) return Error{EINVAL, "no such region"};
    std::unique_lock<RegionObject> held;
    if (gone.object != nullptr) held = std::unique_lock(*gone.object);
    if (gone.object != nullptr && gone.object->windows != 0) return Error{EBUSY, kWindowsOver};
    write_entry({.key = lkey});
  }
  // Not under the lock: a poller must not wait for a thread that waits for it.
  wait_for_grace();
  delete static_cast<UserObject*>(gone.object);
  locked_memory_.release(static_cast<std::byte*>(gone.memory), gone.length);
  give_back(lkey);
  return {};
}

void RegionTable::end_domain(DomainId domain) {
  std::vector<RegionBinding> ended;
  {
    const std::lock_guard lock(writers_);
    ended.reserve(regions());
    for (uint32_t index = 1; index < space_.backed(); ++index) {
      const RegionBinding binding = entry(index).read();
      if (binding.kind == RegionKind::kNone || binding.domain != domain) continue;
      ended.push_back(binding);
      write_entry({.key = binding.key});
    }
  }
  wait_for_grace();
  for (const RegionBinding& binding : ended) {
    // What other kinds have besides their entry belongs to their makers.
    if (binding.kind == RegionKind::kUser) {
      delete static_cast<UserObject*>(binding.object);
      locked_memory_.release(static_cast<std::byte*>(binding.memory), binding.length);
    }
    if (pool_of(binding.kind) == kOfConsumer) {
      give_back(binding.key, KeyHistory::all());
    } else {
      give_back(binding.key);
    }
  }
}

/// One check after the other, for what is not simple and for what is wrong.
Binding RegionTable::resolve_in_order(MemoryKey key, const KeyUser& user, uint64_t iova, uint64_t length,
                                      Access needed, const BusRange& segment) const {
  if (key.index() >= space_.backed()) return Binding(Fault::kKey);
  const RegionBinding bound = entry(key.index()).read();
  if (bound.kind == RegionKind::kNone || bound.key != key) return Binding(Fault::kKey);
  if (bound.domain != user.domain && !(bound.kind == RegionKind::kReservedLKey && user.reserved_lkey))
    return Binding(Fault::kDomain);
  if (!bound.access.covers(needed)) return Binding(Fault::kAccess);
  if (!bound.bound) return Binding(Fault::kState);
  if (iova < bound.iova) return Binding(Fault::kBounds);
  const uint64_t offset = iova - bound.iova;
  if (offset > bound.length || length > bound.length - offset) return Binding(Fault::kBounds);
  if (bound.queue_pair != QpIdentity{} && bound.queue_pair != user.queue_pair)
    return Binding(Fault::kQueuePair);
  if (bound.layout == Layout::kBus) return resolve_on_bus(iova, length, needed, segment);
  const MemoryNature nature(bound.cold, bound.ours);
  if (bound.layout == Layout::kNull) {
    std::byte* const zeros = static_cast<std::byte*>(bound.memory);
    return {needed.any(kWriting) ? zeros + kNullBytes : zeros, 0, length, Layout::kNull, 0, nature};
  }
  const Binding binding(bound.memory, bound.offset + offset, length, bound.layout, bound.page_shift, nature);
  if (length == 0) return binding;
  // Within one page or run it is in one piece, however its region lies.
  UROCE_ASSERT(bound.memory != nullptr);
  const Piece first = binding.piece(0);
  return first.length == length ? Binding(first.data, length, nature) : binding;
}

/// The whole segment lies in one mapping, whatever part of it an operation happens to be at. Cold or not,
/// is not known: what is mapped for DMA is mostly small.
Binding RegionTable::resolve_on_bus(uint64_t address, uint64_t length, Access needed,
                                    const BusRange& segment) const {
  if (options_.bus_space == nullptr) return Binding(Fault::kBounds);
  const Piece whole = options_.bus_space->translate(segment.address, segment.length, needed);
  if (whole.data == nullptr) return Binding(Fault::kBounds);
  UROCE_ASSERT(address - segment.address <= segment.length &&
               length <= segment.length - (address - segment.address));
  return {whole.data + (address - segment.address), length, cold(length)};
}

}  // namespace uroce::mem
