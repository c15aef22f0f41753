// A queue pair sends kFrames in a round. While short and long messages take turns, one with long frames sends
// kQuantumBytes, and nothing in a turn that is made for the post of another one. Short messages are posted
// one by one, and each such turn would otherwise send 64 KiB of long ones besides. Cost: the long ones have
// what the short ones leave; a short message, a few instructions.
//
// That begins with kShortMessages short messages within kMixedFor, after long frames. A queue pair that sent
// up to kShortFrames short frames, has no more, and awaits responses has sent a short message. Not covered:
// two short ones among many long ones of several pollers, and READs that are answered, which are not counted
// as messages of this end.
#include "engine/poller/send_scheduler.h"

namespace uroce::engine {

void SendScheduler::sent(QueuePairEntry& entry, const Sent& what) {
  entry.has_more = what.more && what.frames > 0;
  if (what.frames == 0) return;
  entry.frame_bytes = what.frame_bytes;
  const bool alone = std::exchange(last_, &entry) == &entry;
  if (is_long(entry)) {
    long_until_ = what.now + kMixedFor;
  } else if (!alone && !what.more && what.frames <= kShortFrames && what.now < long_until_) {
    if (what.awaits_responses) note_short_message(what.now);
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
