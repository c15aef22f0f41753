// The receiving stages of a turn: a burst is collected, parsed and found its queue pairs as a whole before
// its first packet is performed, so that what the later stages touch is on its way from memory meanwhile.
#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "engine/poller.h"
#include "net/echo.h"
#include "wire/flow.h"

namespace uroce::engine {

void Poller::receive() {
  std::span<port::RxFrame> frames(frames_);
  const size_t deferred = take_deferred(frames);
  frames = frames.subspan(deferred);
  const size_t looped = take_looped(frames.first(kSourceFramesMax));
  const size_t handed = take_handed_over(frames.subspan(looped, kSourceFramesMax));
  const size_t received = port_queue_.receive(frames.subspan(looped + handed, kSourceFramesMax));
  burst_ = deferred + looped + handed + received;
  handed_begin_ = deferred + looped;
  handed_end_ = handed_begin_ + handed;
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
  if (from_sibling_.size() < 2) return 0;
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
  const net::Demux& demux = surroundings_.addresses.seen().demux;
  for (size_t i = 0; i < burst_; ++i) stage_frame(i, demux);
  // Relaxed: a hint for whoever turns the siblings.
  if (handed_in_burst_ != 0)
    handed_to_.fetch_or(std::exchange(handed_in_burst_, 0), std::memory_order_relaxed);
  for (size_t i = 0; i < staged_; ++i) {
    const wire::Packet& packet = packets_[i].packet;
    if (packets_[i].entry != nullptr) __builtin_prefetch(&packets_[i].entry->queue_pair);
    if (packet.row->headers.has(wire::Header::kReth))
      surroundings_.regions.prefetch(packet.headers.reth.rkey);
    if (packet.row->headers.has(wire::Header::kAtomicEth))
      surroundings_.regions.prefetch(packet.headers.atomic.rkey);
  }
}

/// Parses one frame. Afterwards it is staged, handed over, answered or dropped.
void Poller::stage_frame(size_t index, const net::Demux& demux) {
  const port::RxFrame& frame = frames_[index];
  Staged& staged = packets_[staged_];
  kept_frames_[kept_++] = frame;
  if (staged_ > 0 && packets_[staged_ - 1].entry != nullptr) {
    const auto outcome =
        wire::parse_alike({frame.data, frame.length}, packets_[staged_ - 1].packet, staged.packet);
    // What came to one of our addresses does so again.
    if (outcome)
      return outcome->result == wire::ParseResult::kRoce ? stage_packet(staged) : count(outcome->reason);
  }
  const net::Classified classified = demux.classify({frame.data, frame.length}, staged.packet);
  switch (classified.kind) {
    case net::FrameKind::kRoce:
      return stage_packet(staged);
    case net::FrameKind::kGroup:
      return stage_for_group(staged, index);
    case net::FrameKind::kNeighbour:
      return meet_neighbour(frame);
    case net::FrameKind::kEcho:
      return answer_echo(frame);
    case net::FrameKind::kDropped:
      return count(classified.reason);
  }
}

void Poller::stage_packet(Staged& staged) {
  staged.entry = surroundings_.queue_pairs.find(staged.packet.headers.bth.destination);
  if (staged.entry == nullptr) [[unlikely]]
    return stage_for_services(staged);
  if (&staged.entry->poller != this) return hand_over(staged.entry->poller.index());
  staged.kept = static_cast<uint32_t>(kept_ - 1);
  ++staged_;
}

/// General services are poller 0's business.
void Poller::stage_for_services(Staged& staged) {
  if (staged.packet.headers.bth.destination != GeneralServices::kNumber)
    return count(Counter::kDropUnknownQp);
  if (options_.links == nullptr) return hand_over(0);
  if (services_ == nullptr) return count(Counter::kDropUnknownQp);
  staged.group = nullptr;
  staged.kept = static_cast<uint32_t>(kept_ - 1);
  ++staged_;
}

/// Who gets the frame first copies it to the siblings that have members.
void Poller::stage_for_group(Staged& staged, size_t index) {
  staged.entry = nullptr;
  staged.group = surroundings_.groups.find(staged.packet.destination);
  if (staged.group == nullptr) return count(Counter::kDropNoGroup);
  const uint64_t ours = uint64_t{1} << options_.index;
  const bool copied = index >= handed_begin_ && index < handed_end_;
  for (uint64_t left = copied ? 0 : staged.group->pollers & ~ours; left != 0; left &= left - 1)
    copy_to(static_cast<uint16_t>(__builtin_ctzll(left)), frames_[index]);
  if ((staged.group->pollers & ours) == 0) return;
  staged.kept = static_cast<uint32_t>(kept_ - 1);
  ++staged_;
}

/// As if received; without data when there is no buffer, or none that is long enough for what a peer sent.
port::RxFrame Poller::copy_of(const std::byte* data, uint32_t length) {
  port::TxFrame copy;
  if (port_queue_.allocate({&copy, 1}) == 0) {
    count(Counter::kTxNoBuffer);
    return {};
  }
  if (length > copy.capacity) {
    count(Counter::kDropPayloadLength);
    port_queue_.free({&copy, 1});
    return {};
  }
  std::memcpy(copy.data, data, length);
  copy.length = length;
  return port_queue_.loop(copy);
}

void Poller::copy_to(uint16_t sibling, const port::RxFrame& frame) {
  const port::RxFrame copy = copy_of(frame.data, frame.length);
  if (copy.data == nullptr) return;
  if (!siblings_[sibling]->from_sibling_[options_.index]->push(copy)) {
    count(Counter::kRxHandOverFull);
    return port_queue_.release({&copy, 1});
  }
  count(Counter::kRxHandedOver);
  handed_in_burst_ |= uint64_t{1} << sibling;
}

/// It needs no state, so it is any poller's business. What there is no room for is asked again.
void Poller::answer_echo(const port::RxFrame& frame) {
  port::TxFrame* const reply = tx_.next();
  if (reply == nullptr) return count(Counter::kTxNoBuffer);
  const uint32_t length = net::echo_reply({frame.data, frame.length}, surroundings_.addresses.seen().gids,
                                          {reply->data, reply->capacity});
  if (length == 0) return count(Counter::kRxNotRoce);
  reply->length = length;
  reply->to_self = false;
  reply->to_group = false;
  tx_.commit();
  count(Counter::kEchoAnswered);
}

/// Neighbours are poller 0's business.
void Poller::meet_neighbour(const port::RxFrame& frame) {
  if (options_.links == nullptr) return hand_over(0);
  if (!options_.links->receive({frame.data, frame.length}, turn_.now, tx_)) count(Counter::kDropNeighbour);
  while (const auto conflict = options_.links->take_conflict()) {
    count(Counter::kAddressConflict);
    if (conflict->first && options_.listeners != nullptr)
      options_.listeners->tell_conflict(conflict->address, conflict->with);
  }
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
  const bool checked = std::exchange(ahead_, false);
  for (size_t i = 0; i < staged_; ++i) {
    const auto& [packet, entry, group, kept] = packets_[i];
    if (!checked && !wire::icrc_matches(packet)) {
      count(Counter::kDropIcrc);
      continue;
    }
    if (entry == nullptr) [[unlikely]] {
      group != nullptr ? show(packet, *group) : serve(packet);
      continue;
    }
    make_room();
    if (!entry->queue_pair.receive(packet, turn_)) [[unlikely]]
      defer(packets_[i]);
    if (!placer_.losses().empty()) [[unlikely]]
      qp::commit_placements(turn_);
    activate(*entry);
  }
  if (!deferred_.empty()) [[unlikely]]
    forget_deferred();
}

void Poller::serve(const wire::Packet& packet) {
  if (services_ == nullptr) return count(Counter::kDropUnknownQp);
  if (const auto dropped = services_->receive(packet, turn_.now, tx_)) count(*dropped);
}

void Poller::show(const wire::Packet& packet, const MulticastGroup& group) {
  for (QueuePairEntry* member : group.members) {
    if (&member->poller != this) continue;
    make_room();
    [[maybe_unused]] const bool taken = member->queue_pair.receive(packet, turn_);
    assert(taken);  // UD never stalls
    if (!placer_.losses().empty()) [[unlikely]]
      qp::commit_placements(turn_);
    activate(*member);
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

/// They are not among those that are released after the burst.
void Poller::forget_deferred() {
  const auto kept = std::remove_if(kept_frames_.begin(), kept_frames_.begin() + static_cast<ptrdiff_t>(kept_),
                                   [](const port::RxFrame& frame) { return frame.data == nullptr; });
  kept_ = static_cast<size_t>(kept - kept_frames_.begin());
}

void Poller::release() {
  if (!held_.empty()) [[unlikely]] {
    // Of the burst that was copied; what was kept last is of the next one.
    port_queue_.release(held_);
    return held_.clear();
  }
  if (kept_ > 0) port_queue_.release({kept_frames_.data(), kept_});
}

}  // namespace uroce::engine
