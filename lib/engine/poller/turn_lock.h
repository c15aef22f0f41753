#pragma once

#include <atomic>
#include <cstdint>

#include "base/values/contract.h"

namespace uroce::engine {

/// Whose turns a lock makes exclusive.
class TurnOwner {
 public:
  /// The calling thread has left a turn in the middle, by a jump out of a signal handler or by its end: no
  /// state of the turn's can be trusted, and the lock is never given back.
  virtual void turn_left() = 0;

 protected:
  ~TurnOwner() = default;
};

/// Makes the turns of one poller exclusive, and tells the control path when what was looked up in them is not
/// used any more. The epoch's lowest bit is set during a turn; the next one between two turns, and during the
/// later of them, when the first has left something under way (a copy engine at work); the rest counts.
///
/// Grace period: a thread that unpublished something calls observe(), which is a read-modify-write of the
/// epoch like begin(). All of them stand in one order: a begin() after the observe() reads its value and
/// therefore sees the unpublication; one before it has set the bit, and the observer waits until that very
/// turn, or the last one of those that belong together, has ended.
class alignas(64) TurnLock {
 public:
  /// `owner` is not owned, and may be null.
  explicit TurnLock(TurnOwner* owner = nullptr) : owner_(owner) {}

  [[nodiscard]] TurnOwner* owner() const { return owner_; }
  /// A number that differs from turn to turn.
  [[nodiscard]] uint64_t turn_number() const { return epoch_.load(std::memory_order_relaxed); }  // a hint

  /// A caller that gets false does not wait: another thread is turning the poller just now.
  bool begin() {
    uint64_t epoch = epoch_.load(std::memory_order_relaxed);
    if ((epoch & kTurning) != 0) return false;
    return epoch_.compare_exchange_strong(epoch, epoch | kTurning, std::memory_order_seq_cst,
                                          std::memory_order_relaxed);
  }
  /// Everything done in the turn happens before what follows a begin() or ended() that sees this.
  void end() {
    UROCE_ASSERT(in_turn());
    // A plain store: between begin() and end() only observe() writes, and that writes what it read.
    epoch_.store((epoch_.load(std::memory_order_relaxed) | kTurning | kUnderWay) + 1,
                 std::memory_order_release);
  }

  /// Instead of end(): the turn is over, but what it looked up is still in use until a later turn ends.
  void pause() {
    UROCE_ASSERT(in_turn());
    epoch_.store((epoch_.load(std::memory_order_relaxed) & ~kTurning) | kUnderWay, std::memory_order_release);
  }

  /// Instead of end(): no turn will ever begin again, and no thread waits for this one.
  void end_for_good() { epoch_.store(kShut, std::memory_order_release); }

  [[nodiscard]] uint64_t observe() { return epoch_.fetch_add(0, std::memory_order_seq_cst); }
  /// No thread is in a turn, but something is under way, which waits for one.
  [[nodiscard]] bool paused() const {
    // Relaxed: a hint for the threads that may make that turn.
    return (epoch_.load(std::memory_order_relaxed) & (kTurning | kUnderWay)) == kUnderWay;
  }
  /// The turn that observe() saw, if any, is over, with all that it left under way.
  [[nodiscard]] bool ended(uint64_t observed) const {
    constexpr uint64_t kFlags = kTurning | kUnderWay;
    if ((observed & kFlags) == 0 || observed == kShut) return true;
    return (epoch_.load(std::memory_order_acquire) | kFlags) != (observed | kFlags);  // pairs with end()
  }

 private:
  /// For the thread that may know: the one whose turn it is.
  [[nodiscard]] bool in_turn() const { return (epoch_.load(std::memory_order_relaxed) & kTurning) != 0; }
  static constexpr uint64_t kTurning = 1;
  static constexpr uint64_t kUnderWay = 2;
  static constexpr uint64_t kShut = UINT64_MAX;  // as if in a turn, so begin() fails
  std::atomic<uint64_t> epoch_{0};
  TurnOwner* const owner_;
};

/// The lock that the calling thread holds, nullptr between turns. Turns do not nest. initial-exec: written in
/// every turn.
extern constinit thread_local const TurnLock* turning_on_this_thread
    __attribute__((tls_model("initial-exec")));

}  // namespace uroce::engine
