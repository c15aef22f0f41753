// Deficit round robin (Shreedhar and Varghese, SIGCOMM 1995). The queue pairs with work are in a ring. A
// visit adds the quantum to the queue pair's deficit counter and lets it send as many frames as that pays
// for, by the length of its last one or, if that is more, the mean of its last visit. What it sent is
// subtracted, what is left is carried to the next visit, and one that has no more leaves the ring with a
// counter of zero. Lengths are known only afterwards, so a counter may become negative; the queue pair is
// passed over until it has paid (surplus round robin), but not in a turn that is made for its own post. A
// queue pair beside which no other one sends more than ACKs is not held back, and its counter stands still.
//
// Decision: while short and long messages take turns, one with long frames sends nothing in a turn that is
// made for the post of another one. Short messages are posted one by one, and each such turn would send a
// quantum of long ones besides. Cost: the long ones have what the short ones leave.
//
// That begins with kShortMessages short messages within kMixedFor, after long frames. A queue pair that sent
// up to kShortFrames short frames, has no more, and awaits responses has sent a short message. Not covered:
// two short ones among many long ones of several pollers, and READs that are answered, which are not counted
// as messages of this end.
#include "engine/poller/send_scheduler.h"

namespace uroce::engine {

/// Whether it sends, `round.frames` at most. Otherwise it is passed over, and stays in the ring.
bool SendScheduler::visit(PollerQp& entry, const PollerQp* posted, Round& round) {
  if (goes_later(entry, posted)) return false;
  const int32_t quanta = fills_bursts_ && !mixed_ ? kQuantaOfBurst : 1;
  // A visit in which nothing could be sent saves no more than one quantum.
  entry.deficit =
      std::min(entry.deficit, kQuantumBytes) + quanta * kLeastCharge * static_cast<int32_t>(round.most);
  if (entry.deficit <= 0 && !active_.empty() && &entry != posted) {
    lone_ = nullptr;
    return false;
  }
  const auto paid =
      static_cast<uint32_t>(std::max(entry.deficit, 0)) / std::max<uint32_t>(entry.frame_bytes, kLeastCharge);
  round.frames = std::clamp(paid, kLeastFrames, round.most);
  return true;
}

void SendScheduler::sent(PollerQp& entry, const Sent& what) {
  entry.has_more = what.more && what.frames > 0;
  const auto charge =
      std::max(static_cast<int32_t>(what.bytes), kLeastCharge * static_cast<int32_t>(what.frames));
  entry.deficit = what.more ? std::min(entry.deficit - charge, kQuantumBytes) : 0;
  // ACKs hold no other one back.
  const bool is_ack =
      !what.more && !what.awaits_responses && what.frames <= kShortFrames && what.frame_bytes < kLongFrame;
  if (what.frames == 0) return;
  if (is_ack) {
    if (lone_ == nullptr && !mixed_) lone_ = &entry;
    return;
  }
  entry.frame_bytes = std::max(what.frame_bytes, what.bytes / static_cast<uint32_t>(what.frames));
  const bool alone = std::exchange(last_, &entry) == &entry;
  if (is_long(entry)) {
    long_until_ = what.now + kMixedFor;
  } else if (!alone && !what.more && what.frames <= kShortFrames && what.now < long_until_) {
    note_short_message(what.now);
  }
  lone_ = mixed_ ? nullptr : &entry;
}

void SendScheduler::note_short_message(Instant now) {
  if (now - shorts_since_ > kMixedFor) {
    shorts_since_ = now;
    shorts_ = 0;
  }
  if (++shorts_ < kShortMessages) return;
  mixed_ = true;
  mixed_until_ = now + kMixedFor;
}

}  // namespace uroce::engine
