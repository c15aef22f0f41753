// A frame without room at another program is dropped, and queue pairs wait before that (has_room()): a port
// takes frames in order, so a program that takes none would stop all others. Messages of the connection
// manager do not wait.
// Datagrams wait until that program has room for the 64 frames of a turn, 500 ms at most (takes_datagrams()),
// because a program without CPU loses most of a burst; then they are dropped and counted, and nothing waits
// until it makes room.
// Cost: a UD queue pair sends in order, so its datagrams to others wait, too: 5 s, once, for a program that
// does not answer its introduction.
#include "drivers/port/host/host_queue.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "port/frame_body.h"
#include "port/short_frame.h"
#include "wire/destination.h"

namespace uroce::drivers {

HostQueue::HostQueue(const Options& options, PeerExchange& exchange)
    : own_(options.memory, host::kProgramMemory),
      exchange_(exchange),
      icrc_on_host_(options.icrc_on_host),
      slots_(size_t{1} << host::kCommPrefixBits),
      dropped_(own_.layout().usage(own_.memory()).port_dropped) {
  sent_to_.reserve(host::kProgramMemory.channels);
  received_from_.reserve(host::kProgramMemory.channels);
}

uint64_t HostQueue::dropped() const { return dropped_.load(std::memory_order_relaxed); }

// Peers.

void HostQueue::take_changes() {
  while (const std::unique_ptr<PeerChange> change = exchange_.take_change()) apply(*change);
}

void HostQueue::apply(PeerChange& change) {
  using Kind = PeerChange::Kind;
  Slot& asked = slot_of(change.asked);
  switch (change.kind) {
    case Kind::kReached:
      reach(std::move(change.peer));
      break;
    case Kind::kRelayed:
      asked.peer = service_.get();
      asked.absent = false;
      flush(asked);
      break;
    case Kind::kAbsent:
      asked.absent = true;
      drop_waiting(asked);
      break;
    case Kind::kGone:
      remove(change.block);
      break;
    case Kind::kService:
      replace_service(std::move(change.peer));
      break;
  }
}

void HostQueue::reach(std::unique_ptr<Peer> peer) {
  remove(peer->block);
  Peer* const reached = programs_.emplace_back(std::move(peer)).get();
  peers_.push_back(reached);
  const uint32_t begin = reached->block.first >> host::kBlockBits;
  const uint32_t end = begin + (reached->block.count >> host::kBlockBits);
  for (uint32_t i = begin; i < end && i < slots_.size(); ++i) {
    slots_[i].peer = reached;
    slots_[i].absent = false;
    flush(slots_[i]);
  }
  wake_sleepers();
}

void HostQueue::remove(NumberBlock block) {
  for (Slot& slot : slots_) {
    const bool its = slot.peer != nullptr && slot.peer->block == block;
    if (its) slot.peer = nullptr;
  }
  // One that was only reached by way of the service has no channel.
  const uint32_t begin = block.first >> host::kBlockBits;
  for (uint32_t i = begin; i < begin + (block.count >> host::kBlockBits) && i < slots_.size(); ++i)
    if (slots_[i].peer == service_.get()) slots_[i].peer = nullptr;
  for (const auto& peer : programs_) peer->ended |= peer->block == block;
  some_ended_ = true;
}

/// What a program had sent before its end has been received.
void HostQueue::retire_ended() {
  some_ended_ = false;
  for (size_t i = 0; i < programs_.size();) {
    if (!programs_[i]->ended || programs_[i]->channel->pending()) {
      some_ended_ |= programs_[i++]->ended;
      continue;
    }
    std::unique_ptr<Peer> ended = std::move(programs_[i]);
    programs_.erase(programs_.begin() + static_cast<ptrdiff_t>(i));
    retire(std::move(ended));
  }
}

void HostQueue::replace_service(std::unique_ptr<Peer> peer) {
  for (Slot& slot : slots_)
    if (slot.peer == service_.get()) slot.peer = nullptr;
  if (service_ != nullptr) retire(std::move(service_));
  service_ = std::move(peer);
  slots_[0].peer = service_.get();
  if (service_ != nullptr) peers_.push_back(service_.get());
}

/// Its frames are free again; the rest is the reader's to undo.
void HostQueue::retire(std::unique_ptr<Peer> peer) {
  std::erase(peers_, peer.get());
  std::erase(sent_to_, peer.get());
  std::erase(received_from_, peer.get());
  first_ = 0;
  peer->channel.reset();
  exchange_.retire(std::move(peer));
}

void HostQueue::flush(Slot& slot) {
  if (slot.waiting == nullptr) return;
  const auto waiting = std::move(slot.waiting);
  for (const WaitingFrame& frame : *waiting) send(slot.peer, frame);
}

void HostQueue::drop_waiting(Slot& slot) {
  if (slot.waiting == nullptr) return;
  const auto waiting = std::move(slot.waiting);
  for (const WaitingFrame& frame : *waiting) drop(frame.frame);
}

// Receiving.

/// Copies what is looked at, or all. True: the rest is read where it is.
bool HostQueue::take(port::RxFrame& frame, const std::byte* data) const {
  if (!leaves_bodies_ || frame.length < port::kFrameWithBodyMin) {
    std::memcpy(frame.data, data, frame.length);
    return false;
  }
  port::take_head_and_tail(frame, data);
  return true;
}

/// The bodies of the burst before are read no more.
void HostQueue::release_received() {
  for (Peer* peer : received_from_) peer->channel->release();
  received_from_.clear();
}

uint16_t HostQueue::receive(std::span<port::RxFrame> frames) {
  release_received();
  take_changes();
  if (some_ended_) [[unlikely]]
    retire_ended();
  const size_t count = peers_.size();
  std::array<host::Channel::Frame, kBurst> taken;
  std::array<Peer*, kBurst> from;
  size_t received = 0;
  const size_t room = std::min(frames.size(), kBurst);
  for (size_t i = 0; i < count && received < room; ++i) {
    Peer* const peer = peers_[(first_ + i) % count];
    while (received < room && peer->channel->pending()) {
      Buffer* const buffer = received_.take();
      if (buffer == nullptr) break;
      const host::Channel::Frame frame = peer->channel->receive();
      if (frame.data == nullptr) {
        received_.put(buffer);
        break;
      }
      port::prefetch_frame(frame.data);
      frames[received] = {
          .data = buffer->frame, .length = frame.length, .has_icrc = frame.has_icrc, .handle = buffer};
      from[received] = peer;
      taken[received++] = frame;
    }
  }
  if (received == 0) return 0;
  first_ = (first_ + 1) % count;
  bool bodies = false;
  for (size_t i = 0; i < received; ++i) {
    bodies |= take(frames[i], taken[i].data);
    if (i + 1 < received && from[i + 1] == from[i]) continue;
    std::exchange(bodies, false) ? received_from_.push_back(from[i]) : from[i]->channel->release();
  }
  return static_cast<uint16_t>(received);
}

void HostQueue::release(std::span<const port::RxFrame> frames) {
  for (const port::RxFrame& frame : frames) {
    if (frame.handle != nullptr)
      received_.put(static_cast<Buffer*>(frame.handle));
    else
      own_.put(own_.index_of(frame.data));
  }
}

// Sending.

void HostQueue::reclaim() {
  for (Peer* peer : peers_) peer->channel->reclaim();
}

uint16_t HostQueue::allocate(std::span<port::TxFrame> frames) {
  if (!own_.has_used_ones()) reclaim();
  size_t count = 0;
  for (; count < frames.size(); ++count) {
    const uint32_t frame = own_.take();
    if (frame == host::OwnMemory::kNoFrame) break;
    frames[count] = {
        .data = own_.frame(frame), .capacity = host::kFrameBytes, .length = 0, .handle = nullptr};
  }
  return static_cast<uint16_t>(count);
}

void HostQueue::free(std::span<const port::TxFrame> frames) {
  for (const port::TxFrame& frame : frames) own_.put(own_.index_of(frame.data));
}

/// For the frames of a turn.
bool HostQueue::has_room(Peer& peer) {
  // What is sent to one that broke the format is lost: queue pairs retry in vain, and end.
  if (peer.channel->broken()) return true;
  if (!peer.channel->has_room(kTurnFrames)) return false;
  peer.full_since = kNever;
  peer.stalled = false;
  return true;
}

bool HostQueue::has_room(std::optional<QpNumber> to) {
  const Slot& slot = slot_of(to.value_or(QpNumber{}));
  if (slot.peer != nullptr) return has_room(*slot.peer);
  if (!to) return true;  // without a service: what is sent is lost
  return may_wait(slot);
}

bool HostQueue::takes_datagrams(std::optional<QpNumber> to, Instant now) {
  if (has_room(to)) return true;
  if (!to) return false;  // the way to the link is that of all others
  const Slot& slot = slot_of(*to);
  Peer* const peer = slot.peer;
  if (peer == nullptr) return slot.absent;
  if (peer->full_since == kNever) peer->full_since = now;
  peer->stalled = now - peer->full_since >= kFullMax;
  return peer->stalled;
}

uint16_t HostQueue::transmit(std::span<const port::TxFrame> frames) {
  for (const port::TxFrame& frame : frames) {
    const WaitingFrame sent{own_.index_of(frame.data), frame.length, frame.has_icrc};
    if (frame.on_host)
      send_on_host(wire::destination_of(frame.data), sent);
    else
      send(service_.get(), sent);
  }
  wake_sleepers();
  return static_cast<uint16_t>(frames.size());
}

void HostQueue::send_on_host(QpNumber to, const WaitingFrame& frame) {
  Slot& slot = slot_of(to);
  if (slot.peer != nullptr) [[likely]]
    return send(slot.peer, frame);
  if (slot.waiting == nullptr) {
    if (service_ == nullptr || !exchange_.ask(to)) return drop(frame.frame);
    slot.waiting = std::make_unique<std::vector<WaitingFrame>>();
  }
  if (slot.waiting->size() == kWaitingMax) return drop(frame.frame);
  slot.waiting->push_back(frame);
}

void HostQueue::send(Peer* peer, const WaitingFrame& frame) {
  if (peer == nullptr || peer->channel->broken()) return drop(frame.frame);
  // One that has stalled gets nothing of the last frames, which are a turn's to others.
  if (!peer->channel->has_room(peer->stalled ? kTurnFrames : 1)) return drop(frame.frame);
  peer->channel->send(frame.frame, frame.length, frame.has_icrc);
  if (peer->sent_to) return;
  peer->sent_to = true;
  sent_to_.push_back(peer);
}

void HostQueue::drop(uint32_t frame) {
  own_.put(frame);
  // Relaxed: nothing but a count, which this thread alone writes.
  dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

/// Only once for what was sent to each: that is a system call.
void HostQueue::wake_sleepers() {
  for (Peer* peer : sent_to_) {
    peer->sent_to = false;
    if (!peer->channel->far_end_sleeps()) continue;
    const uint32_t* const word = reinterpret_cast<const uint32_t*>(&peer->channel->far_bell().word);
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
  sent_to_.clear();
}

}  // namespace uroce::drivers
