#pragma once

#include <atomic>
#include <cstdint>

namespace uroce::engine {

/// Makes the turns of one poller exclusive, and tells the control path which of them have ended. The epoch is
/// odd during a turn and even between turns.
///
/// Grace period: who unpublished something calls observe(), which is a read-modify-write of the epoch like
/// begin(). All of them stand in one order: a begin() after the observe() reads its value and therefore sees
/// the unpublication; one before it has made the epoch odd, and the observer waits until that very turn has
/// ended.
class alignas(64) TurnLock {
 public:
  /// Whoever gets false does not wait: somebody else is turning the poller just now.
  bool begin() {
    uint64_t epoch = epoch_.load(std::memory_order_relaxed);
    if ((epoch & 1) != 0) return false;
    return epoch_.compare_exchange_strong(epoch, epoch + 1, std::memory_order_seq_cst,
                                          std::memory_order_relaxed);
  }
  /// Everything done in the turn happens before what follows a begin() or ended() that sees this.
  void end() {
    // A plain store: between begin() and end() only observe() writes, and that writes what it read.
    epoch_.store(epoch_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  /// Instead of end(): no turn will ever begin again, and nobody waits for this one.
  void end_for_good() { epoch_.store(kShut, std::memory_order_release); }

  [[nodiscard]] uint64_t observe() { return epoch_.fetch_add(0, std::memory_order_seq_cst); }
  /// The turn that observe() saw, if any, is over.
  [[nodiscard]] bool ended(uint64_t observed) const {
    if ((observed & 1) == 0 || observed == kShut) return true;
    return epoch_.load(std::memory_order_acquire) != observed;  // pairs with end()
  }

 private:
  static constexpr uint64_t kShut = UINT64_MAX;  // odd, so begin() fails
  std::atomic<uint64_t> epoch_{0};
};

/// The lock that the calling thread holds, nullptr between turns. Turns do not nest.
inline thread_local const TurnLock* turning_on_this_thread = nullptr;

}  // namespace uroce::engine
