#include "drivers/port/packet/arrived_segments.h"

#include <algorithm>
#include <cstring>

#include "wire/header_sizes.h"

namespace uroce::drivers {
namespace {

constexpr size_t kAddresses = 12;  // of the Ethernet header
constexpr size_t kIcrc = sizeof(uint32_t);

/// The last four bytes of a frame.
void turn_icrc(std::byte* end, uint32_t difference) {
  uint32_t icrc;
  std::memcpy(&icrc, end - kIcrc, kIcrc);
  icrc ^= difference;
  std::memcpy(end - kIcrc, &icrc, kIcrc);
}

}  // namespace

void ArrivedSegments::begin(const ArrivedFrame& arrived, GsoPeers& peers) {
  const uint32_t header_bytes = RoceHeaders::length(arrived.bytes.data(), arrived.bytes.size());
  if (arrived.segment_bytes == 0) return begin_single(arrived, header_bytes, peers);
  // Others are the kernel's own: it had them from its TCP.
  if (!arrived.udp || header_bytes == 0) return;
  if (arrived.vlan_tci || header_bytes + arrived.segment_bytes > Buffer::kFrameBytes ||
      RoceHeaders::frame_bytes(arrived.bytes.data(), header_bytes) != arrived.bytes.size())
    return drop();
  peers.learn(arrived.bytes.data(), header_bytes, true);
  begin_gso(arrived, header_bytes);
}

void ArrivedSegments::begin_gso(const ArrivedFrame& arrived, uint32_t header_bytes) {
  header_bytes_ = header_bytes;
  segment_bytes_ = arrived.segment_bytes;
  left_ = arrived.bytes.subspan(header_bytes);
  std::memcpy(headers_.data(), arrived.bytes.data(), header_bytes);
  const bool ipv4 = header_bytes == RoceHeaders::kIpv4;
  identification_ = ipv4 ? RoceHeaders::identification(headers_.data()) : uint16_t{0};
  // With the first number 0 all segments become what they were before they were numbered.
  differences_ = nullptr;
  const size_t ip_bytes = header_bytes - wire::kEthernetBytes + segment_bytes_;
  if (ipv4 && identification_ == 0 && ip_bytes > kIcrc) differences_ = &identifications_.of(ip_bytes - kIcrc);
  number_ = 0;
  set_headers(segment_bytes_);
}

void ArrivedSegments::begin_single(const ArrivedFrame& arrived, uint32_t header_bytes, GsoPeers& peers) {
  std::span<const std::byte> bytes = arrived.bytes;
  if (bytes.size() < wire::kEthernetBytes || bytes.size() + 4 > Buffer::kFrameBytes) return drop();
  if (header_bytes > 0 && bytes.size() <= GsoPeers::kMarkedBytesMax + GsoPeers::kMarkBytes) {
    const size_t ip_end = RoceHeaders::frame_bytes(bytes.data(), header_bytes);
    const bool marked = GsoPeers::is_marked(bytes.data(), ip_end, bytes.size());
    peers.learn(bytes.data(), header_bytes, marked);
    if (marked) bytes = bytes.first(ip_end);
  }
  // What the kernel has taken out, or left to others, is put right; the rest follows as it is.
  header_bytes_ = static_cast<uint32_t>(std::max<size_t>(header_bytes, kAddresses));
  std::memcpy(headers_.data(), bytes.data(), header_bytes_);
  if (arrived.checksum_is_left && header_bytes > 0) wire::store_be16(headers_.data() + header_bytes - 2, 0);
  left_ = bytes.subspan(header_bytes_);
  if (arrived.vlan_tci) {
    std::memmove(headers_.data() + kAddresses + 4, headers_.data() + kAddresses, header_bytes_ - kAddresses);
    wire::store_be16(headers_.data() + kAddresses, 0x8100);
    wire::store_be16(headers_.data() + kAddresses + 2, *arrived.vlan_tci);
    header_bytes_ += 4;
  }
  segment_bytes_ = static_cast<uint32_t>(left_.size());
  differences_ = nullptr;
  number_ = 0;
  identification_ = 0;
}

void ArrivedSegments::set_headers(size_t payload_bytes) {
  const auto number = static_cast<uint16_t>(identification_ == 0 ? 0 : identification_ + number_);
  RoceHeaders::set(headers_.data(), header_bytes_, payload_bytes, number, 0);
}

bool ArrivedSegments::take(port::RxFrame& frame) {
  Buffer* const buffer = pool_.take();
  if (buffer == nullptr) return false;
  const size_t bytes = std::min<size_t>(segment_bytes_, left_.size());
  if (number_ > 0) {
    if (bytes < segment_bytes_ && differences_ != nullptr)
      differences_ = &identifications_.of(header_bytes_ - wire::kEthernetBytes + bytes - kIcrc);
    if (bytes < segment_bytes_ || identification_ != 0) set_headers(bytes);
  }
  std::memcpy(buffer->frame, headers_.data(), header_bytes_);
  std::memcpy(buffer->frame + header_bytes_, left_.data(), bytes);
  const size_t length = header_bytes_ + bytes;
  if (differences_ != nullptr && number_ > 0)
    turn_icrc(buffer->frame + length, (*differences_)[number_ % Identifications::kNumbers]);
  left_ = left_.subspan(bytes);
  ++number_;
  frame = {.data = buffer->frame, .length = static_cast<uint32_t>(length), .handle = buffer};
  return true;
}

void ArrivedSegments::drop() { __atomic_store_n(&dropped_, dropped_ + 1, __ATOMIC_RELAXED); }

}  // namespace uroce::drivers
