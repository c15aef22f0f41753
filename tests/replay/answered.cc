#include "answered.h"

namespace uroce::replay {

void Answered::advance(Psn to) {
  oldest_ = to;
  while (complete_ < messages_.size() && !messages_[complete_].end().after(to)) ++complete_;
}

/// False when an unanswered READ or atomic stands in the way.
bool Answered::acknowledge_before(Psn end) {
  while (oldest_.before(end)) {
    if (waits() || complete_ == messages_.size()) return false;
    const Psn message_end = messages_[complete_].end();
    advance(message_end.before(end) ? message_end : end);
  }
  return true;
}

Answered::Asks Answered::take(const Packet& answer) {
  const Psn psn = answer.psn();
  if (psn.before(oldest_)) return Asks::kNothing;
  const bool own = answer.parsed.row->family == wire::Family::kReadResponse ||
                   answer.parsed.row->headers.has(wire::Header::kAtomicAckEth);
  if (own) {
    if (!acknowledge_before(psn) || !waits()) return Asks::kAgain;
    advance(psn + 1);
    return Asks::kNothing;
  }
  const wire::Aeth& aeth = answer.aeth();
  if (aeth.kind == wire::AethKind::kAck) return acknowledge_before(psn + 1) ? Asks::kNothing : Asks::kAgain;
  if (!acknowledge_before(psn)) return Asks::kAgain;
  if (aeth.kind == wire::AethKind::kRnrNak) return Asks::kLater;
  return aeth.value == static_cast<uint8_t>(wire::NakCode::kSequenceError) ? Asks::kAgain : Asks::kFailed;
}

}  // namespace uroce::replay
