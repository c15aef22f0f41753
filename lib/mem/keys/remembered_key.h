#pragma once

#include <cstdint>

#include "base/values/identifiers.h"
#include "mem/keys/region_entry.h"
#include "mem/keys/region_table.h"
#include "mem/rights/access.h"

namespace uroce::mem {

/// What the key that was used last is bound to: most use the same one again and again, always for the
/// same rights. Then one look at the first word of its entry tells that nothing has changed, for whatever
/// binds, rebinds or ends an entry writes to that word first. So a key that was deregistered, invalidated or
/// bound anew is looked up as if it were not remembered.
///
/// The rules of RegionTable::resolve() hold: within a turn, and what was found dies with it. One thread, one
/// table, which must outlive it. A cache line.
class alignas(64) RememberedKey {
 public:
  explicit RememberedKey(Access needed) : needed_(needed) {}

  /// Does what RegionTable::resolve_at_once() does.
  [[gnu::always_inline]] [[nodiscard]] inline RegionEntry::Found resolve_at_once(
      const RegionTable& table, MemoryKey key, DomainId domain, uint64_t iova, uint64_t length) {
    if (key != key_ || domain != domain_ || !entry_->is_still(run_.version)) [[unlikely]]
      return look_up(table, key, domain).find(iova, length);
    return run_.find(iova, length);
  }

 private:
  /// Remembers the key, if it is of the sort.
  [[gnu::noinline]] const RegionEntry::Run& look_up(const RegionTable& table, MemoryKey key, DomainId domain);

  const Access needed_;
  MemoryKey key_;
  DomainId domain_;
  const RegionEntry* entry_ = &kNoEntry;
  RegionEntry::Run run_{.version = kNoVersion};

  // So that nothing more is to be tested.
  static const RegionEntry kNoEntry;
  static const RegionEntry::Run kNoRun;               // nothing is inside
  static constexpr uint64_t kNoVersion = UINT64_MAX;  // odd: as no entry that was read
};
static_assert(sizeof(RememberedKey) == 64);

}  // namespace uroce::mem
