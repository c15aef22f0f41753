#include "engine/poller/queue_pair_moves.h"

#include <algorithm>

#include "base/values/contract.h"
#include "engine/poller/poller_qp.h"

namespace uroce::engine {

void QueuePairMoves::join(uint16_t index, std::span<QueuePairMoves* const> all) {
  UROCE_ASSERT(index < all.size() && all[index] == this && from_.empty());
  index_ = index;
  all_.assign(all.begin(), all.end());
  from_.resize(all.size());
  for (size_t i = 0; i < all.size(); ++i)
    if (i != index) from_[i] = std::make_unique<SpscRing<MoveMessage>>(kMessagesMax);
}

void QueuePairMoves::tell(uint16_t sibling, const MoveMessage& message) {
  UROCE_ASSERT(sibling < all_.size() && sibling != index_);
  QueuePairMoves& other = *all_[sibling];
  [[maybe_unused]] const bool pushed = other.from_[index_]->push(message);
  UROCE_ASSERT(pushed);
  other.mail_.fetch_or(uint64_t{1} << index_, std::memory_order_release);  // pairs with take()
  hand_off_.announce_to(sibling);
}

void QueuePairMoves::note_rss_mismatch(PollerQp& entry, uint16_t sibling) {
  RssMismatch& rss_mismatch = entry.rss_mismatch;
  if (!entry.may_follow || !rss_mismatch.note(sibling, entry.number)) return;
  if (leaving_.size() == kUnderWayMax || find_leaving(entry) != nullptr) return;
  leaving_.push_back({.entry = &entry, .to = sibling});
  tell(sibling, {.kind = MoveMessage::Kind::kAsk, .entry = &entry});
}

QueuePairMoves::Leaving* QueuePairMoves::find_leaving(const PollerQp& entry) {
  const auto found = std::ranges::find(leaving_, &entry, &Leaving::entry);
  return found != leaving_.end() ? &*found : nullptr;
}

void QueuePairMoves::end_leaving(const PollerQp& entry) {
  std::erase_if(leaving_, [&](const Leaving& leaving) { return leaving.entry == &entry; });
}

bool QueuePairMoves::cancel(const PollerQp& entry) {
  Leaving* const leaving = find_leaving(entry);
  if (leaving == nullptr) return true;
  leaving->cancelled = true;
  if (!leaving->ready) return false;
  tell(leaving->to, {.kind = MoveMessage::Kind::kTakeBack, .entry = leaving->entry});
  end_leaving(entry);
  return true;
}

QueuePairMoves::Completions QueuePairMoves::completions_of(const PollerQp& entry) {
  return {entry.queue_pair.send_completions(), entry.queue_pair.receive_completions()};
}

bool QueuePairMoves::may_come(const PollerQp& entry) const {
  if (coming_.size() == kUnderWayMax) return false;
  const Completions queues = completions_of(entry);
  // A lane follows one other lane at a time.
  return std::ranges::all_of(queues, [&](const auto* queue) { return queue->may_follow(index_); }) &&
         std::ranges::none_of(coming_, [&](const Coming& other) {
           return std::ranges::find_first_of(queues, other.completions) != queues.end();
         });
}

void QueuePairMoves::begin_coming(const PollerQp& entry) {
  coming_.push_back({.entry = &entry, .completions = completions_of(entry)});
}

bool QueuePairMoves::expects(const PollerQp& entry) const {
  return !coming_.empty() && std::ranges::find(coming_, &entry, &Coming::entry) != coming_.end();
}

}  // namespace uroce::engine
