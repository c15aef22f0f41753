#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/threads/spsc_ring.h"
#include "base/values/time.h"
#include "engine/poller/hand_off.h"
#include "queue/completion_queue.h"

namespace uroce::engine {

struct PollerQp;

/// What two pollers of one device tell each other about a queue pair that moves from one to the other, as its
/// packets do not come to the one that has it:
///
/// 1. its owner asks the poller that hands the packets over (kAsk);
/// 2. that one keeps further packets of it to itself, and says how many frames it has handed over so far
///    (kReady); or it has no room (kRefuse);
/// 3. when the owner has received that many, it gives the queue pair away between two turns (kGive), or keeps
///    it if anything of it is under way (kTakeBack).
///
/// So its packets stay in order, and no message of it waits for more than those turns.
struct MoveMessage {
  enum class Kind : uint8_t { kAsk, kReady, kRefuse, kGive, kTakeBack };

  Kind kind;
  PollerQp* entry;
  uint64_t frames = 0;  // kReady
  // kGive: the owner's clock, and how many completions its lanes have had so far.
  Instant now{};
  uint32_t sends_completed = 0;
  uint32_t receives_completed = 0;
};

/// The queue pairs of a poller that leave it, and those that come. Its owner is the poller; others only push
/// into the rings that are theirs.
class QueuePairMoves {
 public:
  static constexpr size_t kUnderWayMax = 16;  // at once, in each direction

  /// A queue pair that is about to leave.
  struct Leaving {
    PollerQp* entry;
    uint16_t to;
    bool ready = false;      // the other poller is, ...
    uint64_t frames = 0;     // ... which has handed over so many frames before
    bool cancelled = false;  // it stays; the other one has not answered yet
  };

  explicit QueuePairMoves(HandOff& hand_off) : hand_off_(hand_off) {
    leaving_.reserve(kUnderWayMax);
    coming_.reserve(kUnderWayMax);
  }

  /// Set-up, before the first turn: those of all pollers of the device by index, this one included.
  void join(uint16_t index, std::span<QueuePairMoves* const> all);

  // The poller, in its turns.

  /// A packet for `entry`, which is this poller's, was handed over by `sibling`; or a run of them in one
  /// burst. The queue pair follows when there were many in a row.
  void note_rss_mismatch(PollerQp& entry, uint16_t sibling);

  /// Others have told something, or queue pairs are about to leave: take().
  [[nodiscard]] bool has_mail() const { return mail_.load(std::memory_order_relaxed) != 0; }
  /// `heard(sibling, message)` sees what siblings have told.
  template <typename Heard>
  void take(Heard heard);
  void tell(uint16_t sibling, const MoveMessage& message);

  [[nodiscard]] std::span<Leaving> leaving() { return leaving_; }
  /// leaving() is looked at in the next turn, too.
  void remember_leaving() {
    if (!leaving_.empty()) mail_.fetch_or(uint64_t{1} << index_, std::memory_order_relaxed);
  }
  [[nodiscard]] Leaving* find_leaving(const PollerQp& entry);
  void end_leaving(const PollerQp& entry);
  /// The queue pair stays. False: the other poller may still look at it; once more in a later turn.
  bool cancel(const PollerQp& entry);

  /// Room for one more that comes.
  [[nodiscard]] bool may_come(const PollerQp& entry) const;
  void begin_coming(const PollerQp& entry);
  void end_coming(const PollerQp& entry) {
    std::erase_if(coming_, [&](const Coming& coming) { return coming.entry == &entry; });
  }
  /// Packets for `entry`, only to be compared, wait for it here.
  [[nodiscard]] bool expects(const PollerQp& entry) const;
  /// Turns have to follow soon.
  [[nodiscard]] bool under_way() const { return has_mail() || !leaving_.empty() || !coming_.empty(); }

 private:
  using Completions = std::array<const queue::CompletionQueue*, 2>;
  static Completions completions_of(const PollerQp& entry);

  /// Its poller may have taken it back, and its memory may be gone, before this one hears of that: the
  /// pointers are only compared.
  struct Coming {
    const PollerQp* entry;
    Completions completions;
  };

  // What a sibling has not heard yet: of each of our kUnderWayMax that leave, that the last one in its place
  // was given or taken back, and that this one is asked for; and an answer for each of those that it asked
  // for, as it asks for no more before it has heard them.
  static constexpr size_t kMessagesMax = 64;
  static_assert(kMessagesMax >= 3 * kUnderWayMax);

  HandOff& hand_off_;
  uint16_t index_ = 0;
  std::vector<QueuePairMoves*> all_;
  std::vector<std::unique_ptr<SpscRing<MoveMessage>>> from_;  // by the sender's index; none from ourselves
  std::atomic<uint64_t> mail_{0};  // bit i: sibling i has told something; our own: leaving_
  std::vector<Leaving> leaving_;
  std::vector<Coming> coming_;
};

template <typename Heard>
void QueuePairMoves::take(Heard heard) {
  for (uint64_t left = mail_.exchange(0, std::memory_order_acquire); left != 0; left &= left - 1) {
    const auto sibling = static_cast<uint16_t>(__builtin_ctzll(left));
    if (sibling == index_) continue;
    MoveMessage message{};
    while (from_[sibling]->pop(message)) heard(sibling, std::as_const(message));
  }
}

}  // namespace uroce::engine
