// Frames of one queue pair leave as a GSO frame by sendmmsg, because the kernel's cost is for each frame and
// not for each byte. A transmit ring (TPACKET_V2) saves little beside sendmmsg, and with GSO it is slower for
// large frames.
// PACKET_QDISC_BYPASS is set only without GSO: it drops a GSO frame that the interface does not take whole.
// Cost: peers that take no GSO frames get single ones (gso_peers.h).
#include "drivers/port/packet/packet_queue.h"

#include <linux/if_packet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/process/cancellation.h"
#include "base/values/contract.h"
#include "wire/header_sizes.h"

namespace uroce::drivers {
namespace {

constexpr size_t kIcrc = sizeof(uint32_t);
constexpr size_t kUdpPayloadMax = GsoHeader::kIpBytesMax - wire::kIpv6Bytes - wire::kUdpBytes;

template <typename Frame>
Buffer* buffer_of(const Frame& frame) {
  return static_cast<Buffer*>(frame.handle);
}

}  // namespace

PacketQueue::~PacketQueue() {
  if (place_.socket >= 0) close(place_.socket);
}

uint16_t PacketQueue::receive(std::span<port::RxFrame> frames) {
  size_t received = 0;
  bool in_ring = !segments_.empty();  // the frame that is being taken apart
  while (received < frames.size()) {
    if (segments_.empty()) {
      if (in_ring) ring_.next();
      ArrivedFrame arrived;
      in_ring = ring_.front(arrived);
      if (!in_ring) break;
      segments_.begin(arrived, peers_);
      continue;
    }
    if (!segments_.take(frames[received])) break;
    ++received;
  }
  if (in_ring && segments_.empty()) ring_.next();
  return static_cast<uint16_t>(received);
}

void PacketQueue::release(std::span<const port::RxFrame> frames) {
  for (const port::RxFrame& frame : frames) {
    Buffer* const buffer = buffer_of(frame);
    if (buffer->home == &pool_) {
      pool_.put(buffer);
    } else {
      buffer->home->give_back(buffer, buffer);
    }
  }
}

uint16_t PacketQueue::allocate(std::span<port::TxFrame> frames) {
  port::TxFrame* to = frames.data();
  for (; to != frames.data() + frames.size(); ++to) {
    Buffer* const buffer = pool_.take();
    if (buffer == nullptr) break;
    *to = {.data = buffer->frame, .capacity = Buffer::kFrameBytes, .length = 0, .handle = buffer};
  }
  return static_cast<uint16_t>(to - frames.data());
}

void PacketQueue::free(std::span<const port::TxFrame> frames) {
  for (const port::TxFrame& frame : frames) pool_.put(buffer_of(frame));
}

size_t PacketQueue::run_length(std::span<const port::TxFrame> frames, uint32_t header_bytes) const {
  const std::byte* const first = frames.front().data;
  const size_t length = frames.front().length;
  const size_t segment = length - header_bytes;
  if (!sends_gso_ || segment <= kIcrc || RoceHeaders::has_checksum(first, header_bytes) ||
      RoceHeaders::frame_bytes(first, header_bytes) != length || !peers_.take(first, header_bytes))
    return 1;
  if (header_bytes == RoceHeaders::kIpv4 && RoceHeaders::identification(first) != 0) return 1;
  const size_t most = std::min({frames.size(), kUdpPayloadMax / segment, Identifications::kNumbers});
  size_t count = 1;
  for (; count < most && frames[count - 1].length == length; ++count) {
    const port::TxFrame& frame = frames[count];
    if (frame.length > length || frame.length <= header_bytes + kIcrc ||
        !RoceHeaders::same_flow(first, frame.data, header_bytes) ||
        RoceHeaders::frame_bytes(frame.data, header_bytes) != frame.length)
      break;
  }
  return count;
}

iovec* PacketQueue::add_single(Message& message, const port::TxFrame& frame, uint32_t header_bytes,
                               iovec* to) {
  uint32_t bytes = frame.length;
  if (place_.gso) {
    // As much as that lies together in the kernel's buffer.
    message.gso = {.header_bytes = static_cast<uint16_t>(bytes)};
    if (header_bytes > 0 && bytes <= GsoPeers::kMarkedBytesMax &&
        bytes + GsoPeers::kMarkBytes <= frame.capacity &&
        RoceHeaders::frame_bytes(frame.data, header_bytes) == bytes) {
      GsoPeers::mark(frame.data, bytes);
      bytes += GsoPeers::kMarkBytes;
    }
    *to++ = {.iov_base = &message.gso, .iov_len = sizeof message.gso};
  }
  *to++ = {.iov_base = frame.data, .iov_len = bytes};
  return to;
}

iovec* PacketQueue::add_run(Message& message, std::span<const port::TxFrame> run, iovec* to) {
  const uint32_t header_bytes = message.header_bytes;
  const size_t segment = run.front().length - header_bytes;
  const size_t payload = segment * (run.size() - 1) + run.back().length - header_bytes;
  message.gso = {.flags = GsoHeader::kNeedsChecksum,
                 .type = GsoHeader::kUdp,
                 .header_bytes = static_cast<uint16_t>(header_bytes),
                 .segment_bytes = static_cast<uint16_t>(segment),
                 .checksum_start = static_cast<uint16_t>(header_bytes - wire::kUdpBytes),
                 .checksum_offset = 6};
  std::memcpy(message.headers.data(), run.front().data, header_bytes);
  RoceHeaders::set(message.headers.data(), header_bytes, payload, 0,
                   RoceHeaders::pseudo_sum(run.front().data, header_bytes, payload));
  *to++ = {.iov_base = &message.gso, .iov_len = sizeof message.gso};
  *to++ = {.iov_base = message.headers.data(), .iov_len = header_bytes};
  for (const port::TxFrame& frame : run)
    *to++ = {.iov_base = frame.data + header_bytes, .iov_len = frame.length - header_bytes};
  renumber(run, header_bytes);
  return to;
}

void PacketQueue::renumber(std::span<const port::TxFrame> run, uint32_t header_bytes) {
  if (header_bytes != RoceHeaders::kIpv4) return;
  for (size_t number = 1; number < run.size(); ++number) {
    const port::TxFrame& frame = run[number];
    const size_t covered = frame.length - wire::kEthernetBytes - kIcrc;
    std::byte* const at = frame.data + frame.length - kIcrc;
    uint32_t icrc;
    std::memcpy(&icrc, at, kIcrc);
    icrc ^= identifications_.of(covered)[number];
    std::memcpy(at, &icrc, kIcrc);
  }
}

size_t PacketQueue::send_burst(std::span<const port::TxFrame> frames) {
  size_t count = 0;
  iovec* part = parts_.data();
  for (size_t i = 0; i < frames.size(); ++count) {
    const port::TxFrame& frame = frames[i];
    UROCE_ASSERT(frame.length > 0 && frame.length <= frame.capacity);
    const uint32_t header_bytes = place_.gso ? RoceHeaders::length(frame.data, frame.length) : 0;
    Message& message = messages_[count];
    const size_t run = header_bytes == 0 ? 1 : run_length(frames.subspan(i), header_bytes);
    message.frames = static_cast<uint8_t>(run);
    message.header_bytes = header_bytes;
    iovec* const first = part;
    part = run > 1 ? add_run(message, frames.subspan(i, run), part)
                   : add_single(message, frame, header_bytes, part);
    calls_[count].msg_hdr = {.msg_iov = first, .msg_iovlen = static_cast<size_t>(part - first)};
    i += run;
  }
  const int taken = sendmmsg(place_.socket, calls_.data(), static_cast<unsigned>(count), MSG_DONTWAIT);
  const int error = taken < 0 ? errno : 0;
  // One writer; readers need a whole value.
  __atomic_store_n(&transmit_calls_, transmit_calls_ + 1, __ATOMIC_RELAXED);
  const size_t messages = taken < 0 ? 0 : static_cast<size_t>(taken);
  size_t sent = 0;
  for (size_t i = 0; i < messages; ++i) sent += messages_[i].frames;
  // What stays the caller's is as it was.
  size_t left = sent;
  for (size_t i = messages; i < count; left += messages_[i++].frames)
    if (messages_[i].frames > 1)
      renumber(frames.subspan(left, messages_[i].frames), messages_[i].header_bytes);
  free(frames.first(sent));
  return sent > 0 ? sent : refused(frames, messages_[0], error);
}

/// Where the kernel has no room the frames wait. What it will never take is lost, or taken apart.
size_t PacketQueue::refused(std::span<const port::TxFrame> frames, const Message& first, int error) {
  // A link that is down loses frames, as any NIC's does.
  if (!place_.interface->running()) {
    free(frames);
    return frames.size();
  }
  if (error == EAGAIN || error == ENOBUFS || error == ENOMEM || error == EINTR) return 0;
  if (first.frames > 1) {
    sends_gso_ = false;
    return 0;
  }
  free(frames.first(1));
  return 1;
}

/// The kernel counts from the last time that it was asked.
uint64_t PacketQueue::dropped() const {
  tpacket_stats counted{};
  socklen_t bytes = sizeof counted;
  if (getsockopt(place_.socket, SOL_PACKET, PACKET_STATISTICS, &counted, &bytes) != 0) counted.tp_drops = 0;
  // Relaxed: a number alone.
  const uint64_t no_room = no_room_.fetch_add(counted.tp_drops, std::memory_order_relaxed) + counted.tp_drops;
  return no_room + ring_.cut_off() + segments_.dropped();
}

uint16_t PacketQueue::transmit(std::span<const port::TxFrame> frames) {
  const CancellationDisabled held;
  size_t sent = 0;
  while (sent < frames.size()) {
    const size_t taken = send_burst(frames.subspan(sent, std::min(frames.size() - sent, kBurst)));
    if (taken == 0) break;
    sent += taken;
  }
  return static_cast<uint16_t>(sent);
}

}  // namespace uroce::drivers
