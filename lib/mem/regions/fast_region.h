#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/values/contract.h"
#include "base/values/identifiers.h"
#include "base/values/result.h"
#include "mem/bus/bus_pins.h"
#include "mem/bus/page_list.h"
#include "mem/keys/published_entry.h"
#include "mem/keys/region_object.h"
#include "mem/keys/region_table.h"
#include "mem/rights/access.h"

namespace uroce::mem {

/// What came of an operation that a poller tried on a region.
enum class Outcome : uint8_t {
  kDone,
  kBusy,     // another thread has the region just now: once more in the next turn
  kRefused,  // it is not in the state for it, or not the caller's
};

/// A binding as a REG_MR asks for it, when FastRegion::check() had nothing against it.
struct FastBinding {
  MemoryKey region;  // by its index
  MemoryKey key;     // that it shall have: the same index, and the consumer's low eight bits
  Access access;
  uint64_t iova = 0;
  PageList* pages = nullptr;  // posted; taken over when it is bound
};

/// A region that work requests bind to pages and unbind again. Made and ended on the control path; in
/// between pollers write its entry, under its lock.
class FastRegion final : public RegionObject {
 public:
  static constexpr uint32_t kPagesMax = 1u << 16;

  /// In a table with bus addresses. EINVAL: no domain, or no pages or too many of them. ENOMEM.
  static Result<std::unique_ptr<FastRegion>> make(RegionTable& table, DomainId domain, uint32_t pages_max);
  ~FastRegion() = default;

  /// Its index, with the key that it was made with.
  [[nodiscard]] MemoryKey first_key() const { return entry_.first_key(); }
  [[nodiscard]] uint32_t pages_max() const { return pages_max_; }

  /// Its end; in whatever state, once. Returns after the grace period. EBUSY: windows are bound over it.
  Status end();

  /// 0, or why no REG_MR may be posted that asks for this: EINVAL (contradictory rights, or to be zero-based;
  /// too many pages, no bytes, or a range that wraps) or EOPNOTSUPP (rights that nothing has).
  [[nodiscard]] int check(const PageExtent& extent, uint64_t iova, Access access) const;

 private:
  friend Outcome bind_fast_region(RegionTable& table, const FastBinding& wanted, DomainId domain);
  friend class Invalidation;
  enum class State : uint8_t { kFree, kBound, kInvalidating };

  FastRegion(RegionTable& table, uint32_t pages_max);
  void take(const FastBinding& wanted, DomainId domain);

  // Under the lock: it is unbound; and when no poller can be at its pages any more.
  void unbind() {
    UROCE_ASSERT(state_ == State::kBound && windows == 0);
    state_ = State::kInvalidating;
  }
  void let_go();

  RegionTable& table_;
  const uint32_t pages_max_;
  State state_ = State::kFree;
  KeyHistory history_;
  std::unique_ptr<std::byte*[]> pages_;
  BusPins pins_;
  PublishedEntry entry_;  // behind what it points to
};

/// Binds as REG_MR does; for pollers. kRefused, by what is wrong first: no fast region has this index, it is
/// of another domain than the queue pair, it is bound or being invalidated, or it may not have this key or
/// so many pages.
/// Unless it was done, the page list is the caller's still.
Outcome bind_fast_region(RegionTable& table, const FastBinding& wanted, DomainId domain);

}  // namespace uroce::mem
