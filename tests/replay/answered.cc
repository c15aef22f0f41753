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

/// What came before the responses that it is behind counts as soon as these have come. False: some have not.
bool Answered::settle() {
  for (Psn before = oldest_;; before = oldest_) {
    if (waits() && early_.erase(oldest_.value()) > 0) advance(oldest_ + 1);
    for (const uint32_t psn : early_)
      if (Psn(psn).after(oldest_)) acknowledge_before(Psn(psn));
    if (acknowledged_) acknowledge_before(*acknowledged_ + 1);
    if (oldest_ == before) break;
  }
  return early_.empty() && (!acknowledged_ || acknowledged_->before(oldest_));
}

Answered::Asks Answered::take(const Packet& answer) {
  const Psn psn = answer.psn();
  if (psn.before(oldest_)) return Asks::kNothing;
  const bool own = answer.parsed.row->family == wire::Family::kReadResponse ||
                   answer.parsed.row->headers.has(wire::Header::kAtomicAckEth);
  if (own) {
    early_.insert(psn.value());
    return settle() ? Asks::kNothing : Asks::kAgain;
  }
  const wire::Aeth& aeth = answer.aeth();
  if (aeth.kind == wire::AethKind::kAck) {
    if (!acknowledged_ || psn.after(*acknowledged_)) acknowledged_ = psn;
    return settle() ? Asks::kNothing : Asks::kAgain;
  }
  if (!acknowledge_before(psn)) return Asks::kAgain;
  if (aeth.kind == wire::AethKind::kRnrNak) return Asks::kLater;
  return aeth.value == static_cast<uint8_t>(wire::NakCode::kSequenceError) ? Asks::kAgain : Asks::kFailed;
}

}  // namespace uroce::replay
