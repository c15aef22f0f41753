// The receiving stages of a turn: a burst is collected, parsed and found its queue pairs as a whole before
// its first packet is performed, so that what the later stages touch is on its way from memory meanwhile.
#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "engine/poller/poller.h"
#include "net/echo.h"
#include "port/short_frame.h"

namespace uroce::engine {

void Poller::receive() {
  handed_begin_ = handed_end_ = 0;
  drained_ = true;
  size_t ours = 0;
  if (looped_count_ > 0 || !deferred_.empty() || from_sibling_.size() > 1) [[unlikely]]
    ours = receive_ours();
  last_received_ = turn_.now;
  const size_t received = port_queue_.receive(std::span(frames_).subspan(ours, kSourceFramesMax));
  burst_ = ours + received;
  drained_ &= received < kSourceFramesMax;
  work_ += burst_;
  // A handed-over frame was counted by the poller that received it, a deferred one in an earlier turn.
  if (received > 0) count_received(std::span(frames_).subspan(ours, received));
}

void Poller::count_received(std::span<const port::RxFrame> frames) {
  uint64_t bytes = 0;
  for (const port::RxFrame& frame : frames) bytes += frame.length;
  counters_.add(Counter::kRxFrames, frames.size());
  counters_.add(Counter::kRxBytes, bytes);
}

/// Those that are here already, in this order: deferred ones, those that we sent to ourselves, and those that
/// siblings have handed over.
size_t Poller::receive_ours() {
  const std::span<port::RxFrame> frames(frames_);
  const size_t deferred = deferred_.size();
  std::ranges::copy(deferred_, frames.begin());
  deferred_.clear();
  const size_t looped = take_looped(frames.subspan(deferred, kSourceFramesMax));
  count_received(frames.subspan(deferred, looped));
  const size_t handed = take_handed_over(frames.subspan(deferred + looped, kSourceFramesMax));
  handed_begin_ = deferred + looped;
  handed_end_ = handed_begin_ + handed;
  drained_ = std::max(looped, handed) < kSourceFramesMax;
  return handed_end_;
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
    if (ring == nullptr) continue;
    port::RxFrame* const to = frames.data() + count;
    count += ring->pop_burst(frames.size() - count,
                             [to](size_t number, const port::RxFrame& frame) { to[number] = frame; });
  }
  if (count > 0) next_sibling_ = (next_sibling_ + 1) % from_sibling_.size();
  return count;
}

void Poller::stage() {
  kept_ = burst_;
  const AddressTable::Snapshot& seen = context_.addresses.seen();
  // What was found of a flow by its addresses held for those that were ours then.
  if (std::exchange(addresses_version_, seen.version) != seen.version) flow_cache_.forget();
  Staged* next = packets_.data();
  for (size_t i = 0; i < burst_; ++i) {
    constexpr size_t kAhead = port::PortQueue::kPrefetched;
    if (i + kAhead < burst_) port::prefetch_frame(frames_[i + kAhead].data);
    next->frame = static_cast<uint32_t>(i);
    const std::span<const std::byte> frame(frames_[i].data, frames_[i].length);
    if (stage_frame(frame, *next, seen.demux)) ++next;
  }
  staged_ = static_cast<size_t>(next - packets_.data());
  // Relaxed: a hint for whoever turns the siblings.
  if (handed_in_burst_ != 0)
    handed_to_.fetch_or(std::exchange(handed_in_burst_, 0), std::memory_order_relaxed);
}

/// Parses one frame. Afterwards it is staged (true), or handed over, answered or dropped.
inline bool Poller::stage_frame(std::span<const std::byte> frame, Staged& staged, const net::Demux& demux) {
  const size_t ip_bytes = flow_cache_.match(frame);
  if (ip_bytes == 0) return stage_slow_path(frame, staged, demux);
  const wire::ParseOutcome outcome = flow_cache_.parse_hit(frame, ip_bytes, staged.packet);
  // What came to one of our addresses does so again.
  return outcome.result == wire::ParseResult::kRoce ? stage_packet(staged) : drop(outcome.reason);
}

/// One of another flow than those before it.
bool Poller::stage_slow_path(std::span<const std::byte> frame, Staged& staged, const net::Demux& demux) {
  const net::Classified classified = demux.classify(frame, staged.packet);
  switch (classified.kind) {
    case net::FrameKind::kRoce:
      flow_cache_.learn(staged.packet);
      return stage_packet(staged);
    case net::FrameKind::kGroup:
      return stage_for_group(staged);
    case net::FrameKind::kNeighbour:
      receive_neighbour_message(staged.frame);
      return false;
    case net::FrameKind::kEcho:
      answer_echo(frame);
      return false;
    case net::FrameKind::kDropped:
      break;
  }
  return drop(classified.reason);
}

inline bool Poller::stage_packet(Staged& staged) {
  const wire::Packet& packet = staged.packet;
  QueuePairEntry* const entry = context_.queue_pairs.find(packet.headers.bth.destination);
  staged.entry = entry;
  if (entry == nullptr) [[unlikely]]
    return stage_for_services(staged);
  if (&entry->poller != this) return hand_over(staged.frame, entry->poller_index);
  __builtin_prefetch(&entry->queue_pair);
  if (packet.row->headers.has_any(kKeyedHeaders)) prefetch_region(packet);
  return true;
}

/// The region that the packet's key stands for, in whichever of kKeyedHeaders it is.
void Poller::prefetch_region(const wire::Packet& packet) {
  const wire::Headers& headers = packet.headers;
  context_.regions.prefetch(packet.row->headers.has(wire::Header::kReth) ? headers.reth.rkey
                                                                         : headers.atomic.rkey);
}

/// General services are poller 0's business.
bool Poller::stage_for_services(Staged& staged) {
  if (staged.packet.headers.bth.destination != GeneralServices::kNumber) return drop(Counter::kDropUnknownQp);
  if (options_.links == nullptr) return hand_over(staged.frame, 0);
  if (services_ == nullptr) return drop(Counter::kDropUnknownQp);
  staged.group = nullptr;
  return true;
}

/// Who gets the frame first copies it to the siblings that have members.
bool Poller::stage_for_group(Staged& staged) {
  staged.entry = nullptr;
  staged.group = context_.groups.find(staged.packet.destination);
  if (staged.group == nullptr) return drop(Counter::kDropNoGroup);
  const uint64_t ours = uint64_t{1} << options_.index;
  const bool copied = staged.frame >= handed_begin_ && staged.frame < handed_end_;
  for (uint64_t left = copied ? 0 : staged.group->pollers & ~ours; left != 0; left &= left - 1)
    copy_to(static_cast<uint16_t>(__builtin_ctzll(left)), frames_[staged.frame]);
  return (staged.group->pollers & ours) != 0;
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
void Poller::answer_echo(std::span<const std::byte> frame) {
  port::TxFrame* const reply = tx_.next();
  if (reply == nullptr) return count(Counter::kTxNoBuffer);
  const uint32_t length =
      net::echo_reply(frame, context_.addresses.seen().gids, {reply->data, reply->capacity});
  if (length == 0) return count(Counter::kRxNotRoce);
  reply->length = length;
  reply->to_self = false;
  reply->to_group = false;
  tx_.commit();
  count(Counter::kEchoAnswered);
}

/// Neighbours are poller 0's business.
void Poller::receive_neighbour_message(size_t index) {
  if (options_.links == nullptr) {
    hand_over(index, 0);
    return;
  }
  const port::RxFrame& frame = frames_[index];
  if (!options_.links->receive({frame.data, frame.length}, turn_.now, tx_)) count(Counter::kDropNeighbour);
  while (const auto conflict = options_.links->take_conflict()) {
    count(Counter::kAddressConflict);
    if (conflict->first && options_.listeners != nullptr)
      options_.listeners->tell_conflict(conflict->address, conflict->with);
  }
}

/// Passes on a frame of the burst, which is not staged then.
bool Poller::hand_over(size_t index, uint16_t to) {
  if (!siblings_[to]->from_sibling_[options_.index]->push(frames_[index]))
    return drop(Counter::kRxHandOverFull);
  disown_frame(index);
  count(Counter::kRxHandedOver);
  handed_in_burst_ |= uint64_t{1} << to;
  return false;
}

/// Somebody else releases the frame.
void Poller::disown_frame(size_t index) {
  frames_[index].data = nullptr;
  all_kept_ = false;
}

/// While the ICRC of a long packet is computed the next one of the burst comes into the cache.
inline bool Poller::is_intact(size_t number) const {
  const wire::Packet& packet = packets_[number].packet;
  if (packet.ip_packet.size() < wire::kWideIcrcBytesMin) return wire::icrc_matches(packet);
  std::span<const std::byte> next;
  if (number + 1 < staged_) next = packets_[number + 1].packet.ip_packet;
  return wire::icrc_of_long(packet.ip_packet, next) == packet.icrc;
}

void Poller::dispatch() {
  const bool checked = std::exchange(ahead_, false);
  for (size_t i = 0; i < staged_; ++i) {
    const wire::Packet& packet = packets_[i].packet;
    QueuePairEntry* const entry = packets_[i].entry;
    if (!checked && !is_intact(i)) {
      count(Counter::kDropIcrc);
      continue;
    }
    if (entry == nullptr) [[unlikely]] {
      packets_[i].group != nullptr ? show(packet, *packets_[i].group) : serve(packet);
      continue;
    }
    flush_completions_if_full();
    if (!entry->queue_pair.receive(packet, turn_)) [[unlikely]]
      defer(packets_[i]);
    if (!placer_.losses().empty()) [[unlikely]]
      qp::commit_placements(turn_);
    activate(*entry);
  }
}

void Poller::serve(const wire::Packet& packet) {
  if (services_ == nullptr) return count(Counter::kDropUnknownQp);
  if (const auto dropped = services_->receive(packet, turn_.now, tx_)) count(*dropped);
}

void Poller::show(const wire::Packet& packet, const MulticastGroup& group) {
  for (QueuePairEntry* member : group.members) {
    if (&member->poller != this) continue;
    flush_completions_if_full();
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
  deferred_.push_back(frames_[staged.frame]);
  disown_frame(staged.frame);
}

/// The frames of the burst that are still ours.
std::span<const port::RxFrame> Poller::kept_frames() {
  const std::span<port::RxFrame> frames = std::span(frames_).first(kept_);
  if (std::exchange(all_kept_, true)) [[likely]]
    return frames;
  const auto gone = std::ranges::remove(frames, nullptr, &port::RxFrame::data);
  kept_ -= gone.size();
  return frames.first(kept_);
}

void Poller::release() {
  if (!held_.empty()) [[unlikely]] {
    // Of the burst that was copied; what was kept last is of the next one.
    port_queue_.release(held_);
    return held_.clear();
  }
  if (const auto frames = kept_frames(); !frames.empty()) port_queue_.release(frames);
}

}  // namespace uroce::engine
