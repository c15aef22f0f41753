// Queue pairs that come from another poller of the device, or leave for one. The messages are in
// queue_pair_moves.h, the number of bursts before a move in rss_mismatch.h.
//
// A NIC's RSS may bring the packets of a queue pair to another poller than its own, and each frame then moves
// between CPUs twice. So the queue pair moves to where its packets come, with its timers and its lanes of
// completion queues. Its times are shifted onto the new poller's clock. Cost: two turns of each poller and
// one more of the last, and a question for the first packet of each run (counter qp_moved; perf/run --only
// handoff; sim_moves_test).
//
// Packets keep their order: the new poller holds back what comes until the last one has received what was
// handed over before. Completions keep theirs: the new lane follows the last one (CompletionQueue::follow()).
// It does not move while anything of it is under way on its poller: an out-of-order packet, an invalidation,
// a frame that the port did not take.
#include "base/values/contract.h"
#include "engine/poller/poller.h"

namespace uroce::engine {

/// At the beginning of a turn, when nothing of the last one is left to be done.
void Poller::take_moves() {
  hear_of_moves();
  give_leaving();
}

void Poller::hear_of_moves() {
  using Kind = MoveMessage::Kind;
  moves_.take([this](uint16_t sibling, const MoveMessage& message) {
    PollerQp& entry = *message.entry;
    switch (message.kind) {
      case Kind::kAsk:
        if (!moves_.may_come(entry)) return moves_.tell(sibling, {.kind = Kind::kRefuse, .entry = &entry});
        moves_.begin_coming(entry);
        return moves_.tell(sibling,
                           {.kind = Kind::kReady, .entry = &entry, .frames = hand_off_.pushed_to(sibling)});
      case Kind::kReady:
        return note_ready(entry, message.frames);
      case Kind::kRefuse:
        return moves_.end_leaving(entry);
      case Kind::kTakeBack:  // it may be gone by now
        return moves_.end_coming(entry);
      case Kind::kGive:
        moves_.end_coming(entry);
        return adopt(entry, sibling, message);
    }
  });
}

void Poller::note_ready(PollerQp& entry, uint64_t frames) {
  QueuePairMoves::Leaving* const leaving = moves_.find_leaving(entry);
  UROCE_ASSERT(leaving != nullptr && !leaving->ready);
  leaving->ready = true;
  leaving->frames = frames;
  if (leaving->cancelled) moves_.cancel(entry);
}

/// Queue pairs that are about to leave do so when all of their packets that were handed over have been
/// received.
void Poller::give_leaving() {
  const std::span<QueuePairMoves::Leaving> leaving = moves_.leaving();
  for (size_t i = leaving.size(); i-- > 0;) {
    const QueuePairMoves::Leaving one = leaving[i];
    if (!one.ready || hand_off_.taken_from(one.to) < one.frames) continue;
    if (may_give(*one.entry, *siblings_[one.to])) {
      give(*one.entry, one.to);
    } else {
      moves_.cancel(*one.entry);
    }
  }
  moves_.remember_leaving();
  hand_off_.announce();
}

/// Nothing of it is under way here, and the other poller makes turns.
bool Poller::may_give(const PollerQp& entry, const Poller& to) const {
  return !to.closed_.load(std::memory_order_relaxed) && entry.queue_pair.used() != nullptr &&
         entry.queue_pair.used()->may_move() && entry.early_requests.empty() &&
         entry.early_responses.empty() && tx_.empty() && !ahead_ && !placer_.copying() && held_.empty() &&
         !receive_.defers() && completions_.empty() && raised_ == nullptr;
}

void Poller::give(PollerQp& entry, uint16_t sibling) {
  moves_.end_leaving(entry);
  senders_.forget(entry);
  timers_.disarm(entry);
  const auto completed = [&](const queue::CompletionQueue* queue) { return queue->pushed(options_.index); };
  const MoveMessage message{.kind = MoveMessage::Kind::kGive,
                            .entry = &entry,
                            .now = turn_.now,
                            .sends_completed = completed(entry.queue_pair.send_completions()),
                            .receives_completed = completed(entry.queue_pair.receive_completions())};
  entry.begin_move(sibling);
  moves_.tell(sibling, message);
}

void Poller::adopt(PollerQp& entry, uint16_t from, const MoveMessage& given) {
  const Duration ahead = turn_.now - given.now;
  entry.queue_pair.used()->moved(ahead);
  entry.rss_mismatch.moved(turn_.now, ahead);
  queue::CompletionQueue* const sends = entry.queue_pair.send_completions();
  queue::CompletionQueue* const receives = entry.queue_pair.receive_completions();
  sends->follow(options_.index, from, given.sends_completed);
  sends->use_lane(options_.index);
  if (receives != sends) {
    receives->follow(options_.index, from, given.receives_completed);
    receives->use_lane(options_.index);
  }
  entry.end_move(options_.index);
  count(Counter::kQpMoved);
  rearm(entry);
  // What was posted meanwhile is found by its pump.
  activate(entry);
}

/// A thread that rang here had not heard that the queue pair has moved.
void Poller::forward_doorbell(PollerQp& entry) {
  Poller& owner = entry.poller();
  // One that is on its way here is pumped when it comes.
  if (&owner == this) return;
  owner.ring(entry);
  hand_off_.announce_to(owner.index());
  hand_off_.announce();
  ++work_;
}

}  // namespace uroce::engine
