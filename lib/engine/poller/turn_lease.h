#pragma once

#include <atomic>
#include <cstdint>

#include "base/values/time.h"

namespace uroce::engine {

/// The lease of a poller's turns: which threads made turns, and when. The background thread, and a thread
/// that polls the other end of a wire inside the process, read it to decide whether to make turns instead.
/// Hints only, all relaxed: no data depends on them. Any thread.
class TurnLease {
 public:
  /// When the application turned the poller last, or what stood in for it.
  [[nodiscard]] Instant application_turned() const {
    return {application_turn_ns_.load(std::memory_order_relaxed)};
  }
  void note_application(Instant now) { application_turn_ns_.store(now.ns, std::memory_order_relaxed); }
  /// Notes that the application's own thread made a turn.
  void note_owner(Instant now) {
    note_application(now);
    owner_turn_ns_.store(now.ns, std::memory_order_relaxed);
  }

  /// Turns have numbers (TurnLock::turn_number()): the last one that the application's own thread has begun.
  void begin_owner_turn(uint64_t number) { owner_turn_.store(number, std::memory_order_relaxed); }
  /// Whether the turn of that number is, or was, the owner's: other threads make turns in its place, too.
  [[nodiscard]] bool is_owners(uint64_t number) const {
    return owner_turn_.load(std::memory_order_relaxed) == number;
  }

  /// Notes that the application found the poller busy.
  void want() {
    if (!wanted_.load(std::memory_order_relaxed)) wanted_.store(true, std::memory_order_relaxed);
  }
  /// True once after each want().
  bool take_wanted() {
    return wanted_.load(std::memory_order_relaxed) && wanted_.exchange(false, std::memory_order_relaxed);
  }

  /// Whether keep_owner() has said that the owner is there until later than `now`.
  [[nodiscard]] bool owner_kept(Instant now) const {
    return now.ns < owner_there_until_ns_.load(std::memory_order_relaxed);
  }
  /// The owner counts as there until then.
  void keep_owner(Instant until) { owner_there_until_ns_.store(until.ns, std::memory_order_relaxed); }
  /// Whether the owner has made a turn since the last call.
  bool owner_turned() {
    const int64_t turned_ns = owner_turn_ns_.load(std::memory_order_relaxed);
    if (turned_ns == owner_turn_seen_ns_.load(std::memory_order_relaxed)) return false;
    owner_turn_seen_ns_.store(turned_ns, std::memory_order_relaxed);
    return true;
  }

 private:
  alignas(64) std::atomic<int64_t> application_turn_ns_{INT64_MIN / 2};
  std::atomic<int64_t> owner_turn_ns_{INT64_MIN / 2};
  std::atomic<uint64_t> owner_turn_{0};
  std::atomic<bool> wanted_{false};
  /// On a line of its own: the poller's owner writes to the others' with each turn, and would lose it to
  /// each poll at the other end of the wire.
  alignas(64) std::atomic<int64_t> owner_there_until_ns_{INT64_MIN};
  std::atomic<int64_t> owner_turn_seen_ns_{INT64_MIN / 2};  // owner_turn_ns_ when owner_turned() looked
};

}  // namespace uroce::engine
