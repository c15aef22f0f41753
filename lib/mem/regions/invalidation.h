#pragma once

#include <cstddef>

#include "base/values/identifiers.h"
#include "mem/keys/region_table.h"
#include "mem/regions/window.h"
#include "mem/rights/grace_period.h"

namespace uroce::mem {

/// How a poller takes the binding of a key away without blocking: the key dies at once, and when no poller
/// can be at the memory any more the region is free to be bound anew. One at a time; kept until over().
class Invalidation {
 public:
  enum class Answer : uint8_t {
    kOver,     // done, and no poller is at the memory
    kPending,  // done; see over()
    kBusy,     // another thread, or another invalidation, has the region: once more in the next turn
    kRefused,
  };

  /// `readers`: pollers of the device.
  explicit Invalidation(size_t readers = kReadersMax) : ticket_(readers) {}
  Invalidation(const Invalidation&) = delete;
  Invalidation& operator=(const Invalidation&) = delete;

  /// kRefused, by what is wrong first: no such key; of another domain; a kind that is not invalidated so
  /// (only fast-registration regions and windows of type 2 are); of another queue pair (2B, while it is
  /// bound); windows are bound over it. A key that is free already stays free, and is not refused. What this
  /// poller resolved and placed earlier in its turn is the caller's affair. Not while one is pending.
  Answer begin(RegionTable& table, MemoryKey key, const KeyUser& user);
  /// Whether the last begin() found the key bound, and ended that.
  [[nodiscard]] bool ended_binding() const { return ended_binding_; }
  /// Begins to bind a window, as bind_window() does. Of a window that was bound (type 1) the old key is dead
  /// at once, and the rest is as for begin().
  Answer begin_bind(RegionTable& table, const WindowBinding& wanted, const KeyUser& user);
  /// Whether begin() would refuse now.
  [[nodiscard]] static bool refuses(const RegionTable& table, MemoryKey key, const KeyUser& user);

  /// True when nothing is pending. In a later turn too, and once more in the next when it is false.
  bool over(RegionTable& table);

 private:
  static Answer unbind(RegionTable& table, const RegionBinding& found);
  Answer wait(RegionTable& table, MemoryKey key);
  bool finish(RegionTable& table) const;

  GraceTicket ticket_;
  MemoryKey key_;
  bool pending_ = false;
  bool ended_binding_ = false;
};

}  // namespace uroce::mem
