// What a turn does when the port's burst is not placed by the CPU alone. A burst is received, dispatched and
// left to the copy engine; nothing of it is visible, its frames are held, and the turn lock tells that it is
// still under way; so a grace period is enough, without state for each queue pair or region. Meanwhile the
// next burst is received and staged, but not dispatched. The turn that finds the copies done goes on where
// the first one stopped.
#include <span>

#include "engine/poller/poller.h"

namespace uroce::engine {

/// The frames that the engine copies from, and what they belong to, are kept until it has ended.
void Poller::hold() {
  const std::span<const port::RxFrame> frames = receive_.kept_frames();
  held_.assign(frames.begin(), frames.end());
  receive_.forget_kept_frames();
  copying_since_ = turn_.now;
}

/// A turn that begins while copies are under way: true when they no longer are.
bool Poller::poll_copies() {
  if (placer_.copies_ended()) return true;
  if (turn_.now - copying_since_ >= CopyPatience::kMax) {
    placer_.give_up();
    return true;
  }
  if (!ahead_) stage_next_burst();
  return false;
}

/// Everything about the next burst that needs no queue pair. No reference to one is kept: before the burst
/// is dispatched there is a quiescent state.
void Poller::stage_next_burst() {
  if (receive() == 0) return;
  stage();
  receive_.keep_staged([this](const StagedPacket& staged) {
    return receive_.is_intact(staged) ? Counter::kCount : Counter::kDropIcrc;
  });
  ahead_ = true;
}

/// The burst that was prepared comes to its turn.
void Poller::revalidate_staged() {
  receive_.keep_staged([this](StagedPacket& staged) {
    if (staged.entry == nullptr) {
      staged.group = context_.groups.find(staged.packet.destination);
      return staged.group != nullptr ? Counter::kCount : Counter::kDropNoGroup;
    }
    staged.entry = context_.queue_pairs.find(staged.packet.headers.bth.destination);
    return staged.entry != nullptr && staged.entry->is_of(options_.index) ? Counter::kCount
                                                                          : Counter::kDropUnknownQp;
  });
}

}  // namespace uroce::engine
