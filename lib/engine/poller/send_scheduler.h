#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/values/time.h"
#include "engine/poller/poller_qp.h"
#include "port/tx_batch.h"

namespace uroce::engine {

/// Which queue pair of a poller sends next, and how many frames: deficit round robin over those that have
/// work, in rounds of which a turn of the poller makes one or two. The poller reports which have work, and
/// what they sent. One poller; in its turns only.
class SendScheduler {
 public:
  /// Frames of one visit at most, unless few queue pairs fill a burst: what a turn may last for one of them.
  static constexpr uint32_t kFrames = 16;
  /// What a visit adds to the deficit counter: four frames of the largest path MTU, for fewer leave most of a
  /// visit's cost to each, and more make short messages wait.
  static constexpr int32_t kQuantumBytes = 16896;
  /// A frame counts as so many bytes at least, as by the `mpu` of Linux's traffic control: short ones cost
  /// CPU time, too. A visit of kFrames short frames takes one quantum.
  static constexpr int32_t kLeastCharge = kQuantumBytes / kFrames;
  /// Where bursts are dear a visit may fill its part of one with the longest frames.
  static constexpr int32_t kQuantaOfBurst = 4;
  /// Frames of a visit at least, whatever the deficit: a response and a request. What is too much is owed.
  static constexpr uint32_t kLeastFrames = 2;
  /// From this length on a frame is long.
  static constexpr uint32_t kLongFrame = 1024;
  /// A short message has at most so many frames.
  static constexpr size_t kShortFrames = 2;
  /// So many short messages within kMixedFor make long ones wait for them: these are slower by it, and a few
  /// short ones, as of a connection that is watched, are not worth that.
  static constexpr uint32_t kShortMessages = 64;
  static constexpr Duration kMixedFor = milliseconds(5);

  /// What a queue pair has sent in its part of a round.
  struct Sent {
    Instant now;
    size_t frames = 0;
    uint32_t bytes = 0;             // of all of them
    uint32_t frame_bytes = 0;       // of the last one
    bool more = false;              // there is more to send
    bool awaits_responses = false;  // otherwise it was an ACK, or the like
  };
  /// A round under way.
  struct Round {
    size_t left;      // that are to be visited
    uint32_t most;    // frames of a visit
    uint32_t frames;  // of the one that is under way
  };

  /// `fills_bursts`: the port's bursts are dear, so that few queue pairs fill one.
  explicit SendScheduler(bool fills_bursts) : fills_bursts_(fills_bursts) {}

  void has_work(PollerQp& entry) { active_.push_back(entry); }
  void has_none(PollerQp& entry) { active_.remove(entry); }
  /// The queue pair is another poller's from now on, which begins without what is known of it.
  void forget(PollerQp& entry) {
    active_.remove(entry);
    entry.has_more = false;
    entry.frame_bytes = 0;
    entry.deficit = 0;
  }
  [[nodiscard]] size_t size() const { return active_.size(); }
  [[nodiscard]] bool empty() const { return active_.empty(); }

  /// All that have work now are visited in it.
  [[nodiscard]] Round begin_round() const {
    const uint32_t most = frames_each();
    return {.left = active_.size(), .most = most, .frames = most};
  }
  /// The next one of the round, which may send `round.frames` and counts as one without work; null: none is
  /// left. `posted`: the turn is for its post, and for nothing else; null: for all.
  PollerQp* next(Round& round, const PollerQp* posted) {
    while (round.left > 0) {
      --round.left;
      PollerQp& entry = active_.pop_front();
      if (is_lone(entry)) [[likely]] {
        round.frames = round.most;
        return &entry;
      }
      if (visit(entry, posted, round)) return &entry;
      active_.push_back(entry);
    }
    return nullptr;
  }
  /// The next one, whatever its deficit. Not empty().
  PollerQp& take() { return active_.pop_front(); }
  /// Whether sent() is not to be called: no other queue pair has sent for a while.
  [[nodiscard]] bool is_lone(const PollerQp& entry) const { return &entry == lone_; }
  void sent(PollerQp& entry, const Sent& what);

  /// Short and long messages take turns, by what was sent so far.
  [[nodiscard]] bool mixed() const { return mixed_; }
  /// mixed(), which ends when no short messages came for a while.
  bool still_mixed(Instant now) { return mixed_ = mixed_ && now < mixed_until_; }

 private:
  [[nodiscard]] static bool is_long(const PollerQp& entry) { return entry.frame_bytes >= kLongFrame; }
  /// Whether the turn is for the post of another queue pair, and this one, with long frames, goes on in the
  /// next.
  [[nodiscard]] bool goes_later(const PollerQp& entry, const PollerQp* posted) const {
    return mixed_ && posted != nullptr && posted != &entry && entry.has_more && is_long(entry);
  }
  bool visit(PollerQp& entry, const PollerQp* posted, Round& round);
  [[nodiscard]] uint32_t frames_each() const {
    if (!fills_bursts_ || mixed_ || active_.empty()) [[likely]]
      return kFrames;
    return std::max(kFrames, static_cast<uint32_t>(port::TxBatch::kFramesMax / active_.size()));
  }
  void note_short_message(Instant now);

  const bool fills_bursts_;
  bool mixed_ = false;
  ActiveList active_;
  // Only to be compared: which queue pair sent last, and that one again as long as it may be the only one.
  const PollerQp* last_ = nullptr;
  const PollerQp* lone_ = nullptr;
  Instant long_until_{INT64_MIN};  // since long frames were sent
  Instant mixed_until_{};          // while mixed_
  Instant shorts_since_{};         // since when short messages are counted
  uint32_t shorts_ = 0;
};

}  // namespace uroce::engine
