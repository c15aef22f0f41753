// A frame of the flow of the last untagged IPv4 packet is parsed by comparison with it; a change of our
// addresses clears the flow cache. The UDP source port does not tell flows apart, because queue pairs of one
// peer differ in it. What was found of a packet (its queue pair, and that it is on the fast path) holds for
// those behind it in the burst that are like it up to the PSN. The queue pair's state and errors are looked
// at for each.
#include "engine/poller/receive_stage.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/poller/burst_prefetch.h"
#include "net/echo.h"
#include "port/frame_body.h"
#include "port/short_frame.h"

namespace uroce::engine {

size_t ReceiveStage::receive(Instant now) {
  handed_begin_ = handed_end_ = 0;
  drained_ = true;
  size_t ours = 0;
  if (!parts_.looped.empty() || !deferred_.empty() || parts_.hand_off.has_siblings()) [[unlikely]]
    ours = receive_ours();
  last_received_ = now;
  const size_t asked = expects_several() ? kPortFramesMax : kSourceFramesMax;
  const size_t received = source_->receive(std::span(frames_).subspan(ours, asked));
  burst_ = ours + received;
  drained_ &= received < kSourceFramesMax;  // there may be ports that give no more at once
  // A handed-over frame was counted by the poller that received it, a deferred one in an earlier turn.
  if (received > 0) count_received(std::span(frames_).subspan(ours, received));
  return burst_;
}

void ReceiveStage::count_received(std::span<const port::RxFrame> frames) {
  uint64_t bytes = 0;
  for (const port::RxFrame& frame : frames) bytes += frame.length;
  parts_.counters.add(Counter::kRxFrames, frames.size());
  parts_.counters.add(Counter::kRxBytes, bytes);
}

/// Frames that are here already, in this order: deferred ones, those that we sent to ourselves, and those
/// that siblings have handed over.
size_t ReceiveStage::receive_ours() {
  const std::span<port::RxFrame> frames(frames_);
  const size_t deferred = deferred_.size();
  std::ranges::copy(deferred_, frames.begin());
  deferred_.clear();
  size_t looped = parts_.looped.take(frames.subspan(deferred, kSourceFramesMax));
  if (faults_ != nullptr) looped = faults_->filter(frames.subspan(deferred, looped));
  count_received(frames.subspan(deferred, looped));
  const size_t handed = parts_.hand_off.take(frames.subspan(deferred + looped, kSourceFramesMax));
  drained_ = std::max(looped, handed) < kSourceFramesMax;
  const size_t all = deferred + looped + handed;
  if (handed > 0) {
    handed_begin_ = deferred + looped;
    handed_end_ = all;
  }
  return all;
}

void ReceiveStage::stage(Instant now, bool services) {
  now_ = now;
  services_ = services;
  kept_ = burst_;
  const AddressTable::Snapshot& seen = parts_.context.addresses.seen();
  // What was found of a flow by its addresses held for those that were ours then.
  if (std::exchange(addresses_version_, seen.version) != seen.version) flow_cache_.forget();
  looked_ahead_ = burst_ > 1 && expects_several();
  if (burst_ > 1) changes_ = 0;
  if (looked_ahead_) prefetch_queue_pairs(std::span(frames_).first(burst_), parts_.context.queue_pairs);
  StagedPacket* next = packets_.data();
  if (handed_end_ > 0) [[unlikely]]
    next = stage_handed(next, seen.demux);
  next = stage_frames(handed_end_, burst_, next, seen.demux);
  staged_ = static_cast<size_t>(next - packets_.data());
  parts_.hand_off.announce();
}

/// Stages the frames up to the last one that siblings have handed over. Those are staged by themselves: each
/// says that packets of its queue pair come to another poller.
StagedPacket* ReceiveStage::stage_handed(StagedPacket* next, const net::Demux& demux) {
  next = stage_frames(0, handed_begin_, next, demux);
  return stage_frames(handed_begin_, handed_end_, next, demux);
}

/// Stages the frames [begin, end) of the burst, all of which are from siblings, or none.
[[gnu::always_inline]] inline StagedPacket* ReceiveStage::stage_frames(size_t begin, size_t end,
                                                                       StagedPacket* next,
                                                                       const net::Demux& demux) {
  like_entry_ = nullptr;
  for (size_t i = begin; i < end; ++i) {
    constexpr size_t kAhead = port::PortQueue::kPrefetched;
    if (i + kAhead < burst_) port::prefetch_frame(frames_[i + kAhead].data);
    next->frame = static_cast<uint32_t>(i);
    next->prediction_hit = false;
    const std::span<const std::byte> frame(frames_[i].data, frames_[i].length);
    if (stage_frame(frame, *next, demux)) ++next;
  }
  return next;
}

/// Parses one frame. Afterwards it is staged (true), or handed over, answered or dropped.
inline bool ReceiveStage::stage_frame(std::span<const std::byte> frame, StagedPacket& staged,
                                      const net::Demux& demux) {
  const size_t ip_bytes = flow_cache_.match(frame);
  if (ip_bytes == 0) {
    port::take_body(frames_[staged.frame]);
    return stage_slow_path(frame, staged, demux);
  }
  if (flow_cache_.is_prediction_hit(frame)) [[likely]] {
    flow_cache_.parse_prediction_hit(frame, ip_bytes, staged.packet);
    return like_entry_ != nullptr ? stage_prediction_hit(staged) : stage_packet(staged);
  }
  like_entry_ = nullptr;
  const wire::ParseOutcome outcome = flow_cache_.parse_hit(frame, ip_bytes, staged.packet);
  // What came to one of our addresses does so again.
  return outcome.result == wire::ParseResult::kRoce ? stage_packet(staged) : drop(outcome.reason);
}

/// Stages a frame that missed the flow cache.
bool ReceiveStage::stage_slow_path(std::span<const std::byte> frame, StagedPacket& staged,
                                   const net::Demux& demux) {
  like_entry_ = nullptr;
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
    case net::FrameKind::kQuery:
      receive_query(staged.frame);
      return false;
    case net::FrameKind::kEcho:
      answer_echo(frame);
      return false;
    case net::FrameKind::kDropped:
      break;
  }
  return drop(classified.reason);
}

inline bool ReceiveStage::stage_packet(StagedPacket& staged) {
  const wire::Packet& packet = staged.packet;
  PollerQp* const entry = parts_.context.queue_pairs.find(packet.headers.bth.destination);
  staged.entry = entry;
  if (entry == nullptr) [[unlikely]]
    return stage_for_services(staged);
  if (!entry->is_of(parts_.poller_index)) [[unlikely]]
    return pass_on(staged);
  if (std::exchange(staged_last_, entry) != entry) {
    ++changes_;
    if (!looked_ahead_) entry->prefetch_all();
  }
  if (staged.frame < handed_end_ || entry->rss_mismatch.any()) [[unlikely]]
    note_way(staged);
  like_entry_ = entry;
  return complete(staged);
}

/// Hands a packet over to the poller that owns its queue pair; defers it when the queue pair is moving here.
bool ReceiveStage::pass_on(const StagedPacket& staged) {
  const uint16_t owner = staged.entry->poller_index();
  if (owner != parts_.poller_index && !parts_.moves.expects(*staged.entry))
    return hand_over(staged.frame, owner);
  defer(staged);
  return false;
}

/// Notes to which poller a packet for a queue pair of ours came, as some have come to a sibling.
void ReceiveStage::note_way(const StagedPacket& staged) {
  const size_t index = staged.frame;
  if (index < handed_begin_ || index >= handed_end_) return staged.entry->rss_mismatch.forget();
  parts_.moves.note_rss_mismatch(*staged.entry, parts_.hand_off.sender_of(index - handed_begin_));
}

/// Stages a packet that is like the last one, and so is for the same queue pair of ours.
inline bool ReceiveStage::stage_prediction_hit(StagedPacket& staged) {
  staged.entry = like_entry_;
  staged.prediction_hit = true;
  return complete(staged);
}

/// Completes a packet whose queue pair is known. False: it was dropped.
inline bool ReceiveStage::complete(StagedPacket& staged) {
  if (frames_[staged.frame].sender != staged.entry->sender) [[unlikely]] {
    if (!admit_sender(staged)) return false;
  }
  if (frames_[staged.frame].body != nullptr) refer_to_body(staged);
  if (staged.packet.row->headers.has_any(kKeyedHeaders)) prefetch_region(staged.packet);
  return true;
}

/// Whether the program of this host that sent the packet may be the peer of its queue pair: then others of it
/// may come. A number and a PSN that are guessed are not enough for a packet from another one.
bool ReceiveStage::admit_sender(const StagedPacket& staged) {
  const BlockCode sender = frames_[staged.frame].sender;
  PollerQp& entry = *staged.entry;
  if (!entry.may_send(sender)) {
    like_entry_ = nullptr;
    return drop(Counter::kDropWrongPeer);
  }
  entry.sender = sender;
  return true;
}

/// Has payload and ICRC of a frame with a body (port/frame_body.h) read where the sender has them.
void ReceiveStage::refer_to_body(StagedPacket& staged) {
  const port::RxFrame& frame = frames_[staged.frame];
  const auto in_body = [&](std::span<const std::byte> part) {
    return std::span(frame.body + (part.data() - frame.data), part.size());
  };
  staged.packet.payload = in_body(staged.packet.payload);
  staged.packet.ip_packet = in_body(staged.packet.ip_packet);
}

/// Prefetches the region of the packet's key, in whichever of kKeyedHeaders that is.
void ReceiveStage::prefetch_region(const wire::Packet& packet) {
  const wire::Headers& headers = packet.headers;
  parts_.context.regions.prefetch(packet.row->headers.has(wire::Header::kReth) ? headers.reth.rkey
                                                                               : headers.atomic.rkey);
}

/// Stages a packet for queue pair 1, which is poller 0's, or delivers one to a program that shares the
/// device.
bool ReceiveStage::stage_for_services(StagedPacket& staged) {
  port::take_body(frames_[staged.frame]);
  if (is_for_program(staged)) return false;
  if (staged.packet.headers.bth.destination != Gsi::kNumber) return drop(Counter::kDropUnknownQp);
  if (parts_.links == nullptr) return hand_over(staged.frame, 0);
  if (!services_) return drop(Counter::kDropUnknownQp);
  staged.group = nullptr;
  return true;
}

FrameSwitch::Arrival ReceiveStage::arrival(const StagedPacket& staged) const {
  const port::RxFrame& frame = frames_[staged.frame];
  return {.packet = staged.packet,
          .frame = {frame.data, frame.length},
          .has_icrc = frame.has_icrc,
          .sender = frame.sender};
}

/// Delivers the packet to the program that shares the device and has its queue pair. False: there is none.
bool ReceiveStage::is_for_program(const StagedPacket& staged) {
  if (programs_ == nullptr) return false;
  if (!programs_->deliver(arrival(staged))) return false;
  count(Counter::kRxToPrograms);
  return true;
}

/// Stages a packet for the members of a group. The poller that receives it from the port copies it to the
/// siblings that have members.
bool ReceiveStage::stage_for_group(StagedPacket& staged) {
  staged.entry = nullptr;
  staged.group = parts_.context.groups.find(staged.packet.destination);
  const bool for_programs = programs_ != nullptr && programs_->deliver_to_group(arrival(staged));
  if (for_programs) count(Counter::kRxToPrograms);
  if (staged.group == nullptr) return for_programs ? false : drop(Counter::kDropNoGroup);
  const uint64_t ours = uint64_t{1} << parts_.poller_index;
  const bool copied = staged.frame >= handed_begin_ && staged.frame < handed_end_;
  for (uint64_t left = copied ? 0 : staged.group->pollers & ~ours; left != 0; left &= left - 1)
    copy_to(static_cast<uint16_t>(__builtin_ctzll(left)), frames_[staged.frame]);
  return (staged.group->pollers & ours) != 0;
}

port::RxFrame ReceiveStage::copy_of(const std::byte* data, uint32_t length) {
  port::TxFrame copy;
  if (parts_.port_queue.allocate({&copy, 1}) == 0) {
    count(Counter::kTxNoBuffer);
    return {};
  }
  if (length > copy.capacity) {
    count(Counter::kDropPayloadLength);
    parts_.port_queue.free({&copy, 1});
    return {};
  }
  std::memcpy(copy.data, data, length);
  copy.length = length;
  return parts_.port_queue.loop(copy);
}

void ReceiveStage::copy_to(uint16_t sibling, const port::RxFrame& frame) {
  const port::RxFrame copy = copy_of(frame.data, frame.length);
  if (copy.data == nullptr) return;
  if (!parts_.hand_off.push(sibling, copy)) {
    count(Counter::kRxHandOverFull);
    return parts_.port_queue.release({&copy, 1});
  }
  count(Counter::kRxHandedOver);
}

/// Answers an echo request, as any poller can: it needs no state. One that finds no room the peer repeats.
void ReceiveStage::answer_echo(std::span<const std::byte> frame) {
  port::TxFrame* const reply = parts_.tx.next();
  if (reply == nullptr) return count(Counter::kTxNoBuffer);
  const uint32_t length =
      net::echo_reply(frame, parts_.context.addresses.seen().gids, {reply->data, reply->capacity});
  if (length == 0) return count(Counter::kRxNotRoce);
  reply->length = length;
  reply->to_self = false;
  reply->to_group = false;
  parts_.tx.commit();
  count(Counter::kEchoAnswered);
}

/// Receives ARP or neighbour discovery, which is poller 0's.
void ReceiveStage::receive_neighbour_message(size_t index) {
  if (parts_.links == nullptr) {
    hand_over(index, 0);
    return;
  }
  const port::RxFrame& frame = frames_[index];
  if (!parts_.links->receive({frame.data, frame.length}, now_, parts_.tx)) count(Counter::kDropNeighbour);
  while (const auto conflict = parts_.links->take_conflict()) {
    count(Counter::kAddressConflict);
    if (conflict->first && parts_.listeners != nullptr)
      parts_.listeners->tell_conflict(conflict->address, conflict->with);
  }
}

/// Receives a query about multicast groups, which are poller 0's, too.
void ReceiveStage::receive_query(size_t index) {
  if (parts_.links == nullptr) {
    hand_over(index, 0);
    return;
  }
  const port::RxFrame& frame = frames_[index];
  const bool taken = parts_.links->receive_query({frame.data, frame.length}, now_);
  count(taken ? Counter::kGroupQueries : Counter::kDropGroupQuery);
}

/// Hands a frame of the burst over to a sibling, which is rare: it leaves a gap in the burst, as a copy of
/// every frame would cost more. Always false: it is not staged.
bool ReceiveStage::hand_over(size_t index, uint16_t to) {
  port::take_body(frames_[index]);
  if (!parts_.hand_off.push(to, frames_[index])) return drop(Counter::kRxHandOverFull);
  disown_frame(index);
  count(Counter::kRxHandedOver);
  return false;
}

/// Takes a frame out of the burst that is released elsewhere.
void ReceiveStage::disown_frame(size_t index) {
  frames_[index].data = nullptr;
  all_kept_ = false;
}

void ReceiveStage::defer(const StagedPacket& staged) {
  if (deferred_.size() == kDeferredFramesMax) return count(Counter::kDropStalled);
  port::take_body(frames_[staged.frame]);
  deferred_.push_back(frames_[staged.frame]);
  disown_frame(staged.frame);
}

std::span<const port::RxFrame> ReceiveStage::kept_frames() {
  const std::span<port::RxFrame> frames = std::span(frames_).first(kept_);
  if (std::exchange(all_kept_, true)) [[likely]]
    return frames;
  const auto gone = std::ranges::remove(frames, nullptr, &port::RxFrame::data);
  kept_ -= gone.size();
  return frames.first(kept_);
}
}  // namespace uroce::engine
