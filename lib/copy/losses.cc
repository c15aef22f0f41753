#include "copy/losses.h"

#include "base/values/contract.h"

namespace uroce::copy {
namespace {

/// Marks of one owner and one direction: requests and READ responses are two rows of messages.
bool same_row(const MessageMark& a, const MessageMark& b) {
  return a.owner == b.owner && (a.kind == MessageMark::Kind::kRead) == (b.kind == MessageMark::Kind::kRead);
}

}  // namespace

void Losses::note(const MessageMark& mark, size_t tails_before) {
  for (size_t i = 0; i < count_; ++i) {
    if (!same_row(mark_[i], mark)) continue;
    // Copies are known to be lost before the tails that were placed earlier are stored.
    if (tails_before < tails_before_[i]) {
      mark_[i] = mark;
      tails_before_[i] = tails_before;
    }
    return;
  }
  // There is room: callers take note of losses before they place the next packet.
  UROCE_ASSERT(count_ < mark_.size());
  tails_before_[count_] = tails_before;
  mark_[count_++] = mark;
}

bool Losses::before(const MessageMark& mark, size_t tails_before) const {
  for (size_t i = 0; i < count_; ++i)
    if (same_row(mark_[i], mark) && tails_before_[i] <= tails_before) return true;
  return false;
}

}  // namespace uroce::copy
