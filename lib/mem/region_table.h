#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/identifiers.h"
#include "base/result.h"
#include "mem/access.h"
#include "mem/grace_period.h"
#include "mem/region.h"

namespace uroce::mem {

/// What a user asks for; the verbs face fills it from ibv_reg_mr and its relatives.
struct UserRegion {
  DomainId domain;
  std::byte* address = nullptr;
  uint64_t length = 0;
  uint64_t iova = 0;  // address of the first byte as keys' users name it: the VA, a chosen one, or 0
  Access access;
};

struct RegionKeys {
  MemoryKey lkey;
  MemoryKey rkey;
};

/// All regions of one device behind one lock-free lookup by key.
///
/// Control path (register, deregister): any thread, serialised inside; may allocate, lock and wait.
/// resolve(): pollers within a turn; no lock, no allocation, no reference count.
class RegionTable {
 public:
  struct Options {
    uint32_t entries_max = 1u << 24;      // power of two, at most 2^24; memory is taken as entries are used
    uint64_t cold_bytes = 8ull << 20;     // regions of at least this size are `cold`
    GracePeriod* grace_period = nullptr;  // not owned; must outlive the table
  };
  explicit RegionTable(const Options& options);
  ~RegionTable();
  RegionTable(const RegionTable&) = delete;
  RegionTable& operator=(const RegionTable&) = delete;

  /// EINVAL: unknown or contradictory access bits (remote write or atomic without local write, a right that
  /// no region of this kind has), zero length, or a range that wraps. EFAULT: some page is not there, or is
  /// not writable although a right to write was asked for. ENOMEM: the table is full, or RLIMIT_MEMLOCK.
  /// (ibv_reg_mr(3))
  Result<RegionKeys> register_user(const UserRegion& region);

  /// Returns after the grace period: no byte of the region's memory is touched by the stack from then on.
  /// EINVAL: no such region.
  Status deregister(MemoryKey lkey);

  /// Checks key, domain, rights and bounds of [iova, iova + length), overflow-safe. length 0 resolves when
  /// the key, the domain and the rights are right and iova is inside or at the end.
  [[nodiscard]] Binding resolve(MemoryKey key, DomainId domain, uint64_t iova, uint64_t length,
                                Access needed) const;

  /// Gets the cache line of a key's entry under way.
  void prefetch(MemoryKey key) const;

  [[nodiscard]] uint32_t regions() const;

 private:
  class Entries;
  std::unique_ptr<Entries> entries_;
  Options options_;
};

}  // namespace uroce::mem
