// What the responder received and the capture lacks.
#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "apps/decode/requester_track.h"

namespace uroce::decode {

void RequesterTrack::add_gap(Psn first, Psn end) {
  if (gaps_.size() == kGapsMax) {
    not_captured_ += acknowledged_in(gaps_.front());
    gaps_.pop_front();
  }
  gaps_.push_back({first, end});
}

/// What was missing from `psn` to before `end` has come.
void RequesterTrack::close_gap(Psn psn, Psn end) {
  const auto gap = std::ranges::find_if(
      gaps_, [&](const Gap& one) { return !psn.before(one.first) && psn.before(one.end); });
  if (gap == gaps_.end()) return;
  const Gap behind{end, gap->end};
  gap->end = psn;
  if (behind.first.before(behind.end) && gaps_.size() < kGapsMax) gaps_.insert(std::next(gap), behind);
}

/// All PSNs up to that of an ACK or response were received, and all before that of a NAK.
void RequesterTrack::acknowledge(const Inspected& response) {
  const bool is_plain = response.row->opcode.operation() == wire::Operation::kAcknowledge;
  const bool refuses = is_plain && response.aeth.kind != wire::AethKind::kAck;
  const Psn psn = refuses ? response.bth.psn - 1u : response.bth.psn;
  if (std::abs(psn - next_) > kDistanceMax) return;
  if (!acknowledged_ || psn.after(*acknowledged_)) acknowledged_ = psn;
}

uint64_t RequesterTrack::acknowledged_in(const Gap& gap) const {
  if (!acknowledged_) return 0;
  const int32_t psns = std::min(*acknowledged_ + 1 - gap.first, gap.end - gap.first);
  return static_cast<uint64_t>(std::max(psns, 0));
}

uint64_t RequesterTrack::not_captured() const {
  uint64_t sum = not_captured_;
  for (const Gap& gap : gaps_) sum += acknowledged_in(gap);
  if (begun_ && next_is_known_ && acknowledged_)
    sum += static_cast<uint64_t>(std::max(*acknowledged_ + 1 - next_, 0));
  return sum;
}

}  // namespace uroce::decode
