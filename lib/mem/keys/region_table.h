#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "base/tables/index_space.h"
#include "base/values/contract.h"
#include "base/values/identifiers.h"
#include "base/values/result.h"
#include "mem/bus/bus_space.h"
#include "mem/keys/key_bytes.h"
#include "mem/keys/region_entry.h"
#include "mem/process/locked_memory.h"
#include "mem/process/memory_probe.h"
#include "mem/rights/access.h"
#include "mem/rights/grace_period.h"
#include "mem/rights/region.h"

namespace uroce::mem {

/// What a user asks for; the verbs face fills it from ibv_reg_mr and its relatives.
struct UserRegion {
  DomainId domain;
  std::byte* address = nullptr;
  uint64_t length = 0;
  uint64_t iova = 0;  // address of the first byte as keys' users name it: the VA, a chosen one, or 0
  Access access;      // with kZeroBased, iova is 0 whatever it says
  bool ours = false;  // memory of the stack's own, which is there until deregister(): see MemoryNature
};

/// What of a user region shall change; the rest stays. With a new place, the iova is the new address, or 0 if
/// the region is zero-based then.
struct RegionChange {
  struct Place {
    std::byte* address = nullptr;
    uint64_t length = 0;
  };
  std::optional<DomainId> domain;
  std::optional<Place> place;
  std::optional<Access> access;
};

struct RegionKeys {
  MemoryKey lkey;
  MemoryKey rkey;
};

/// All regions of one device behind one lock-free lookup by key.
///
/// Control path (register, deregister): any thread, serialised inside; may allocate, lock and wait.
/// resolve(): pollers within a turn; no lock, no allocation, no reference count.
///
/// The kinds that are more than a run of memory have a file each, beside this one; what they need of the
/// table is the last section.
class RegionTable {
 public:
  struct Options {
    uint32_t entries_max = 1u << 24;  // power of two, at most 2^24; memory is taken as entries are used
    std::optional<HashKey> key = std::nullopt;  // decides about keys; without one indexes ascend
    uint64_t cold_bytes = 8ull << 20;           // regions of at least this size are `cold`
    GracePeriod* grace_period =
        nullptr;  // not owned; must outlive the table. nullptr: there are no other readers
    LockedMemory* locked_memory = nullptr;  // not owned; must outlive the table. nullptr: that of the process
    LockedMemory::Limit memlock = LockedMemory::Limit::kHonoured;
    MemoryProber* prober = nullptr;  // not owned; must outlive the table. nullptr: the calling thread
    BusSpace* bus_space = nullptr;   // not owned; must outlive the table. nullptr: no bus addresses
    IndexSpace::Pages pages = IndexSpace::Pages::kHuge;
  };
  /// Throws std::bad_alloc when the address space cannot be reserved.
  explicit RegionTable(const Options& options);
  /// Regions that are still registered are forgotten; no poller may be in a turn.
  ~RegionTable();
  RegionTable(const RegionTable&) = delete;
  RegionTable& operator=(const RegionTable&) = delete;

  /// EINVAL: unknown or contradictory access bits (remote write or atomic without local write), no domain,
  /// or a range that wraps. EOPNOTSUPP: on-demand paging, flush. EFAULT: some page is not there, or is not
  /// writable although a right to write was asked for. ENOMEM: the table is full, or RLIMIT_MEMLOCK.
  /// (ibv_reg_mr(3)) Not a byte has changed, and of a large range no page is populated (check_memory()). A
  /// region of no bytes has a key, too, which gives access to none.
  Result<RegionKeys> register_user(const UserRegion& region);

  /// Binds a user region anew; its keys stay. Returns after the grace period: no byte moves as the region was
  /// before. Whatever fails, the region is as it was. As register_user(), and EINVAL: no such region, or to
  /// be zero-based where it lies. EBUSY: windows are bound over it, or another thread changed it meanwhile.
  Status reregister(MemoryKey lkey, const RegionChange& change);

  /// A user region's end. Returns after the grace period: no byte of the region's memory is touched by the
  /// stack from then on. EINVAL: no such region. EBUSY: windows are bound over it.
  Status deregister(MemoryKey lkey);

  /// The end of whatever is bound in a domain whose user is gone without a word; no queue pair is left in it.
  /// Returns after the grace period. Their makers must not come back to them.
  void end_domain(DomainId domain);

  /// Checks key, domain, rights, state, bounds of [iova, iova + length) and queue pair, in this order,
  /// overflow-safe. length 0 resolves when all else is right and iova is inside or at the end.
  [[nodiscard]] Binding resolve(MemoryKey key, const KeyUser& user, uint64_t iova, uint64_t length,
                                Access needed) const {
    const RegionEntry::Found found = resolve_at_once(key, user.domain, iova, length, needed);
    if (found.right) [[likely]]
      return {found.data, length, found.nature};
    return resolve_in_order(key, user, iova, length, needed, {iova, length});
  }
  /// Bytes [skip, skip + length) of a segment of a work request, for a caller that uses it part by part. All
  /// of a segment that is named by bus address lies in one mapping, or no part of it resolves.
  [[nodiscard]] Binding resolve_in_segment(MemoryKey key, const KeyUser& user, const BusRange& segment,
                                           uint64_t skip, uint64_t length, Access needed) const {
    const RegionEntry::Found found =
        resolve_at_once(key, user.domain, segment.address + skip, length, needed);
    if (found.right) [[likely]]
      return {found.data, length, found.nature};
    return resolve_in_order(key, user, segment.address + skip, length, needed, segment);
  }
  /// The most frequent case of it: something that is in one piece, and everything is right. Else ask
  /// resolve().
  [[gnu::always_inline]] [[nodiscard]] inline RegionEntry::Found resolve_at_once(
      MemoryKey key, DomainId domain, uint64_t iova, uint64_t length, Access needed) const {
    if (key.index() >= space_.backed()) [[unlikely]]
      return {};
    return entry(key.index()).resolve_at_once(key, domain, iova, length, needed);
  }

  /// The key's entry; nullptr when it cannot have one.
  [[nodiscard]] const RegionEntry* entry_of(MemoryKey key) const {
    return key.index() < space_.backed() ? &entry(key.index()) : nullptr;
  }

  /// Gets the cache line of a key's entry under way. Any key, also one that a peer made up.
  void prefetch(MemoryKey key) const { __builtin_prefetch(space_.at(key.index())); }

  [[nodiscard]] uint32_t regions() const { return space_.in_use(); }
  /// visit(const RegionBinding&) sees every region and window, in no order, each as it was at some moment.
  /// Any thread; nothing waits for it. Takes time for all indexes that were ever in use; what the binding
  /// points to may be gone.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (uint32_t index = 1, end = space_.backed(); index < end; ++index) {
      const RegionBinding binding = entry(index).read();
      if (binding.kind != RegionKind::kNone) visit(binding);
    }
  }
  /// Memory that is made for programs is to be in hugepages, too, where there are any.
  [[nodiscard]] bool hugepages_wanted() const { return options_.pages == IndexSpace::Pages::kHuge; }
  /// True while the whole table is in hugepages.
  [[nodiscard]] bool hugepages() const { return space_.hugepages(); }

  // For the kinds of region. Writes to one entry are serialised by its owner (RegionObject).

  /// A new entry, bound as said, with a key that its index has not had since it had all 256 of them, and that
  /// cannot be foretold. ENOMEM.
  Result<MemoryKey> make_entry(RegionBinding binding);
  /// Makes a key for a region whose low eight bits the consumer chooses from then on; the owner adds each of
  /// them to `history`, which begins with what the index has had before.
  Result<MemoryKey> make_entry_for_consumer(RegionBinding binding, KeyHistory& history);
  /// For a region that changes its key and whose bytes are the stack's: the one after `key`.
  [[nodiscard]] MemoryKey next_key(MemoryKey key) const { return key_bytes_.after(key); }
  /// The entry that the key's index has, whatever its low eight bits; kNone when there is none.
  [[nodiscard]] RegionBinding read_entry(MemoryKey key) const {
    return key.index() < space_.backed() ? entry(key.index()).read() : RegionBinding{};
  }
  /// Binds the entry of `binding.key`'s index anew, also to nothing.
  void write_entry(const RegionBinding& binding) {
    UROCE_ASSERT(binding.key.index() != 0 && binding.key.index() < space_.backed());
    entry(binding.key.index()).write(binding);
  }
  /// After the grace period: the index, bound to nothing, rests and comes back with another key.
  void give_back(MemoryKey key);
  void give_back(MemoryKey key, const KeyHistory& history);
  /// Expires with the table.
  [[nodiscard]] std::weak_ptr<const void> alive() const { return alive_; }

  [[nodiscard]] GracePeriod* grace_period() const { return options_.grace_period; }
  void wait_for_grace() const {
    if (options_.grace_period != nullptr) options_.grace_period->wait();
  }
  /// Populates the range: does what probe_memory() does.
  [[nodiscard]] bool probe(const std::byte* address, uint64_t length, bool write) const {
    if (length == 0) return true;
    return options_.prober != nullptr ? options_.prober->probe(address, length, write)
                                      : probe_memory(address, length, write);
  }
  /// A region of so many bytes is too large to stay in cache.
  [[nodiscard]] bool cold(uint64_t length) const { return length >= options_.cold_bytes; }
  [[nodiscard]] BusSpace* bus_space() const { return options_.bus_space; }

 private:
  /// Pays for memory and looks whether it is all there.
  Status take_memory(std::byte* address, uint64_t length, Access access);
  Status bind_anew(const RegionBinding& old, const UserRegion& wanted);
  [[nodiscard]] Binding resolve_in_order(MemoryKey key, const KeyUser& user, uint64_t iova, uint64_t length,
                                         Access needed, const BusRange& segment) const;
  [[nodiscard]] Binding resolve_on_bus(uint64_t address, uint64_t length, Access needed,
                                       const BusRange& segment) const;
  Result<uint32_t> allocate_index(size_t pool);
  [[nodiscard]] MemoryKey next_key_of(uint32_t index) const;
  [[nodiscard]] RegionEntry& entry(uint32_t index) const {
    return *reinterpret_cast<RegionEntry*>(space_.at(index));
  }

  IndexSpace space_;
  const KeyBytes key_bytes_;
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
  const Options options_;
  LockedMemory& locked_memory_;
  std::mutex writers_;  // serialises the changes and ends of user regions
};

}  // namespace uroce::mem
