// The receiving stages of a turn: a burst is collected, parsed and found its queue pairs as a whole before
// its first packet is performed, so that what the later stages touch is on its way from memory meanwhile.
#include <algorithm>
#include <utility>

#include "engine/poller.h"

namespace uroce::engine {

void Poller::receive() {
  std::span<port::RxFrame> frames(frames_);
  const size_t deferred = take_deferred(frames);
  frames = frames.subspan(deferred);
  const size_t looped = take_looped(frames.first(kSourceFramesMax));
  const size_t handed = take_handed_over(frames.subspan(looped, kSourceFramesMax));
  const size_t received = port_queue_.receive(frames.subspan(looped + handed, kSourceFramesMax));
  burst_ = deferred + looped + handed + received;
  drained_ = std::max({looped, handed, received}) < kSourceFramesMax;
  work_ += burst_;
  if (burst_ == 0) return;
  uint64_t bytes = 0;
  // A handed-over frame was counted by the poller that received it, a deferred one in an earlier turn.
  for (const port::RxFrame& frame : frames.first(looped)) bytes += frame.length;
  for (const port::RxFrame& frame : frames.subspan(looped + handed, received)) bytes += frame.length;
  counters_.add(Counter::kRxFrames, looped + received);
  counters_.add(Counter::kRxBytes, bytes);
}

size_t Poller::take_deferred(std::span<port::RxFrame> frames) {
  const size_t count = deferred_.size();
  if (count == 0) [[likely]]
    return 0;
  std::ranges::copy(deferred_, frames.begin());
  deferred_.clear();
  return count;
}

size_t Poller::take_looped(std::span<port::RxFrame> frames) {
  const size_t count = std::min(frames.size(), looped_count_);
  for (port::RxFrame& frame : frames.first(count)) {
    frame = looped_[looped_head_];
    looped_head_ = (looped_head_ + 1) % kLoopFramesMax;
  }
  looped_count_ -= count;
  return count;
}

size_t Poller::take_handed_over(std::span<port::RxFrame> frames) {
  size_t count = 0;
  for (size_t i = 0; i < from_sibling_.size(); ++i) {
    const auto& ring = from_sibling_[(next_sibling_ + i) % from_sibling_.size()];
    while (ring != nullptr && count < frames.size() && ring->pop(frames[count])) ++count;
  }
  if (count > 0) next_sibling_ = (next_sibling_ + 1) % from_sibling_.size();
  return count;
}

void Poller::stage() {
  staged_ = 0;
  kept_ = 0;
  for (size_t i = 0; i < burst_; ++i) stage_frame(frames_[i]);
  // Relaxed: a hint for whoever turns the siblings.
  if (handed_in_burst_ != 0)
    handed_to_.fetch_or(std::exchange(handed_in_burst_, 0), std::memory_order_relaxed);
  for (size_t i = 0; i < staged_; ++i) {
    const wire::Packet& packet = packets_[i].packet;
    __builtin_prefetch(&packets_[i].entry->queue_pair);
    if (packet.row->headers.has(wire::Header::kReth))
      surroundings_.regions.prefetch(packet.headers.reth.rkey);
  }
}

/// Parses one frame. Afterwards it is staged, handed over, answered or dropped.
void Poller::stage_frame(const port::RxFrame& frame) {
  Staged& staged = packets_[staged_];
  kept_frames_[kept_++] = frame;
  const net::Classified classified = surroundings_.demux.classify({frame.data, frame.length}, staged.packet);
  switch (classified.kind) {
    case net::FrameKind::kRoce:
      return stage_packet(staged);
    case net::FrameKind::kNeighbour:
      return meet_neighbour(frame);
    case net::FrameKind::kDropped:
      return count(classified.reason);
  }
}

void Poller::stage_packet(Staged& staged) {
  staged.entry = surroundings_.queue_pairs.find(staged.packet.headers.bth.destination);
  if (staged.entry == nullptr) return count(Counter::kDropUnknownQp);
  if (&staged.entry->poller != this) return hand_over(staged.entry->poller.index());
  staged.kept = static_cast<uint32_t>(kept_ - 1);
  ++staged_;
}

/// Neighbours are poller 0's business.
void Poller::meet_neighbour(const port::RxFrame& frame) {
  if (options_.neighbours == nullptr) return hand_over(0);
  if (!options_.neighbours->receive({frame.data, frame.length}, turn_.now, tx_))
    count(Counter::kDropNeighbour);
}

/// Passes on the frame that was kept last.
void Poller::hand_over(uint16_t to) {
  if (!siblings_[to]->from_sibling_[options_.index]->push(kept_frames_[kept_ - 1])) {
    return count(Counter::kRxHandOverFull);
  }
  --kept_;
  count(Counter::kRxHandedOver);
  handed_in_burst_ |= uint64_t{1} << to;
}

void Poller::dispatch() {
  for (size_t i = 0; i < staged_; ++i) {
    const auto& [packet, entry, kept] = packets_[i];
    if (!wire::icrc_matches(packet)) {
      count(Counter::kDropIcrc);
      continue;
    }
    make_room();
    if (!entry->queue_pair.receive(packet, turn_)) [[unlikely]]
      defer(packets_[i]);
    if (!placer_.losses().empty()) [[unlikely]]
      qp::commit_placements(turn_);
    activate(*entry);
  }
}

/// The frame waits, with those that come after it for the same queue pair. When there is no room it is lost
/// as on the wire.
void Poller::defer(const Staged& staged) {
  if (deferred_.size() == kDeferredFramesMax) return count(Counter::kDropStalled);
  port::RxFrame& frame = kept_frames_[staged.kept];
  deferred_.push_back(frame);
  frame.data = nullptr;
}

void Poller::release() {
  if (!deferred_.empty()) [[unlikely]] {
    const auto kept =
        std::remove_if(kept_frames_.begin(), kept_frames_.begin() + static_cast<ptrdiff_t>(kept_),
                       [](const port::RxFrame& frame) { return frame.data == nullptr; });
    kept_ = static_cast<size_t>(kept - kept_frames_.begin());
  }
  if (kept_ > 0) port_queue_.release({kept_frames_.data(), kept_});
}

}  // namespace uroce::engine
