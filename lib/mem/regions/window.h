#pragma once

#include <cstdint>
#include <memory>

#include "base/values/identifiers.h"
#include "base/values/result.h"
#include "mem/keys/published_entry.h"
#include "mem/keys/region_object.h"
#include "mem/keys/region_table.h"
#include "mem/rights/access.h"

namespace uroce::mem {

constexpr bool is_window(RegionKind kind) {
  return kind == RegionKind::kWindow1 || kind == RegionKind::kWindow2A || kind == RegionKind::kWindow2B;
}

/// What a window may permit.
inline constexpr Access kWindowRights = kRemoteWrite | kRemoteRead | kRemoteAtomic;

/// What a window is to be bound to.
struct WindowBinding {
  MemoryKey window;  // by its index
  MemoryKey key;     // that it shall have: the same index, and the consumer's low eight bits
  MemoryKey region;  // its L_Key; of type 1 without bytes, none: the window is unbound
  Access access;     // of kWindowRights; and kZeroBased: the first byte is at 0, not at `address`
  uint64_t address = 0;
  uint64_t length = 0;
  bool type1 = false;  // by the verb for type 1, which may bind anew what is bound; else by a work request
};

enum class Bound : uint8_t {
  kDone,
  kAnew,  // done; pollers may be at what it was bound to before
  kBusy,  // another thread has the window or a region just now: once more in the next turn
  kRefused,
};

/// A window: a key of its own for a part of another region, for peers only. Made and ended on the control
/// path; in between pollers bind and invalidate it. Its entry embeds where the region lies, and while it is
/// bound the region lives on unchanged (RegionObject::windows).
///
/// The entry is written under the locks of window and region, taken in this order, and the window still
/// counts while it is written: a thread that ends the region afterwards waits for pollers that resolved the
/// window before.
class Window final : public RegionObject {
 public:
  /// `kind`: one of the kinds of window. EINVAL: no domain. ENOMEM.
  static Result<std::unique_ptr<Window>> make(RegionTable& table, DomainId domain, RegionKind kind);
  /// end().
  ~Window() { end(); }

  /// Its index, with the key that it was made with.
  [[nodiscard]] MemoryKey first_key() const { return entry_.first_key(); }

  /// Its end, bound or not. Returns after the grace period.
  void end();

 private:
  friend Bound bind_window(RegionTable& table, const WindowBinding& wanted, const KeyUser& user);
  friend class Invalidation;

  explicit Window(RegionTable& table) : table_(table) {}
  // Under the lock.
  Bound bind(const WindowBinding& wanted, const KeyUser& user);
  void move_to(RegionObject* region, const RegionBinding& binding);
  /// False: another thread has the region.
  bool try_unbind();

  RegionTable& table_;
  RegionObject* parent_ = nullptr;  // what it is bound over; under the lock
  KeyHistory history_;              // of type 2, likewise
  PublishedEntry entry_;
};

/// Binds, for pollers. kRefused, by what is wrong first: no window of that type has this index; it is of
/// another domain than the queue pair; it may not have this key; of type 2, it is bound, or no bytes are
/// wanted; of type 1, to be zero-based; rights that a window cannot have; the region is none, not of this
/// domain, not bound, of a kind without windows, zero-based, or without the right to bind windows or, what
/// the window permits, to do the same locally (rights.h); or the range is not inside it.
Bound bind_window(RegionTable& table, const WindowBinding& wanted, const KeyUser& user);

}  // namespace uroce::mem
