#include "wire/frame.h"

#include <cassert>
#include <cstring>

#include "wire/big_endian.h"
#include "wire/icrc.h"
#include "wire/internet_checksum.h"
#include "wire/layers.h"

namespace uroce::wire {
namespace {

constexpr uint16_t kDoNotFragment = 0x4000;

// All zero fields (identification, UDP checksum) stay as the image was made.
void write_ipv4(std::byte* ip, const Path& path) {
  store_u8(ip, 0x45);
  store_u8(ip + 1, path.traffic_class);
  store_be16(ip + 6, kDoNotFragment);
  store_u8(ip + 8, path.hop_limit);
  store_u8(ip + 9, kProtocolUdp);
  std::memcpy(ip + 12, path.source.bytes.data() + 12, 4);
  std::memcpy(ip + 16, path.destination.bytes.data() + 12, 4);
}

void write_ipv6(std::byte* ip, const Path& path) {
  store_be32(ip, 6u << 28 | uint32_t{path.traffic_class} << 20 | (path.flow_label & 0xFFFFF));
  store_u8(ip + 6, kProtocolUdp);
  store_u8(ip + 7, path.hop_limit);
  std::memcpy(ip + 8, path.source.bytes.data(), 16);
  std::memcpy(ip + 24, path.destination.bytes.data(), 16);
}

constexpr uint8_t pad_of(uint32_t payload_bytes) { return static_cast<uint8_t>(-payload_bytes & 3u); }

constexpr uint32_t kIpv4TemplateBytes = kEthernetBytes + kIpv4Bytes + kUdpBytes;
constexpr uint32_t kIpv6TemplateBytes = kEthernetBytes + kIpv6Bytes + kUdpBytes;

}  // namespace

uint16_t udp_source_port(SourcePorts recipe, uint32_t flow_label, QpNumber local, QpNumber remote) {
  if (recipe == SourcePorts::kQueuePair) {
    constexpr uint32_t kGoldenRatio = 0x61C88647;
    return static_cast<uint16_t>(0xC000 | local.value * kGoldenRatio >> 18);
  }
  uint32_t label = flow_label & 0xFFFFF;
  if (label == 0) {
    uint64_t mixed = uint64_t{local.value} * remote.value;
    mixed ^= mixed >> 20;
    mixed ^= mixed >> 40;
    label = static_cast<uint32_t>(mixed & 0xFFFFF);
  }
  return static_cast<uint16_t>(((label & 0x3FFF) ^ (label >> 14)) | 0xC000);
}

FrameTemplate::FrameTemplate(const Path& path) {
  const bool ipv4 = path.source.is_ipv4();
  assert(ipv4 == path.destination.is_ipv4());
  std::byte* at = image_.data();
  std::memcpy(at, path.destination_mac.bytes.data(), 6);
  std::memcpy(at + 6, path.source_mac.bytes.data(), 6);
  at += 12;
  if (path.has_vlan) {
    store_be16(at, kEtherTypeVlan);
    store_be16(at + 2, path.vlan_tci);
    at += kVlanTagBytes;
  }
  store_be16(at, ipv4 ? kEtherTypeIpv4 : kEtherTypeIpv6);
  at += 2;
  ip_offset_ = static_cast<uint8_t>(at - image_.data());
  if (ipv4) {
    write_ipv4(at, path);
    ipv4_checksum_seed_ = fold_sum(add_words({at, kIpv4Bytes}));
    at += kIpv4Bytes;
  } else {
    write_ipv6(at, path);
    at += kIpv6Bytes;
  }
  store_be16(at, path.udp_source_port);
  store_be16(at + 2, kRoceUdpPort);
  bytes_ = static_cast<uint8_t>(at + kUdpBytes - image_.data());
}

void FrameTemplate::set_udp_source_port(uint16_t port) {
  assert(bytes_ != 0);
  store_be16(image_.data() + bytes_ - kUdpBytes, port);
}

void FrameTemplate::write(std::byte* to, uint32_t transport_bytes) const {
  // Copies of constant size are a few vector moves; a size from a variable would be a call.
  const std::byte* from = image_.data();
  switch (bytes_) {
    case kIpv4TemplateBytes:
      std::memcpy(to, from, kIpv4TemplateBytes);
      break;
    case kIpv4TemplateBytes + kVlanTagBytes:
      std::memcpy(to, from, kIpv4TemplateBytes + kVlanTagBytes);
      break;
    case kIpv6TemplateBytes:
      std::memcpy(to, from, kIpv6TemplateBytes);
      break;
    default:
      std::memcpy(to, from, kIpv6TemplateBytes + kVlanTagBytes);
      break;
  }
  std::byte* ip = to + ip_offset_;
  std::byte* udp = to + bytes_ - kUdpBytes;
  const auto udp_bytes = static_cast<uint16_t>(kUdpBytes + transport_bytes);
  store_be16(udp + 4, udp_bytes);
  if (udp - ip == kIpv4Bytes) {
    const auto total = static_cast<uint16_t>(kIpv4Bytes + udp_bytes);
    const auto checksum = static_cast<uint16_t>(~fold_sum(ipv4_checksum_seed_ + word_on_wire(total)));
    store_be16(ip + 2, total);
    std::memcpy(ip + 10, &checksum, sizeof checksum);
  } else {
    store_be16(ip + 4, udp_bytes);
  }
}

uint32_t frame_bytes(const FrameTemplate& path, Opcode opcode, uint32_t payload_bytes) {
  return path.bytes() + opcode_row(opcode).header_bytes + payload_bytes + pad_of(payload_bytes) + kIcrcBytes;
}

std::byte* write_headers(std::span<std::byte> buffer, const FrameTemplate& path, const Headers& headers,
                         uint32_t payload_bytes) {
  assert(opcode_row(headers.bth.opcode).valid);
  const uint32_t frame = frame_bytes(path, headers.bth.opcode, payload_bytes);
  assert(frame <= buffer.size());
  path.write(buffer.data(), frame - path.bytes());
  return write_transport(buffer.data() + path.bytes(), headers, pad_of(payload_bytes));
}

uint32_t icrc_of_headers(std::span<const std::byte> buffer, const FrameTemplate& path, Opcode opcode) {
  const size_t end = path.bytes() + opcode_row(opcode).header_bytes;
  return icrc_of(buffer.first(end).subspan(path.ip_offset()));
}

uint32_t finish_frame(std::span<std::byte> buffer, const FrameTemplate& path, Opcode opcode,
                      uint32_t payload_bytes, uint32_t icrc) {
  assert(pad_of(payload_bytes) == 0);
  const uint32_t frame = frame_bytes(path, opcode, payload_bytes);
  assert(frame <= buffer.size());
  std::memcpy(buffer.data() + frame - kIcrcBytes, &icrc, sizeof icrc);  // Least significant byte first.
  return frame;
}

uint32_t finish_frame(std::span<std::byte> buffer, const FrameTemplate& path, Opcode opcode,
                      uint32_t payload_bytes) {
  const uint32_t frame = frame_bytes(path, opcode, payload_bytes);
  assert(frame <= buffer.size());
  std::byte* const icrc_at = buffer.data() + frame - kIcrcBytes;
  // A whole word of zeros covers 0 to 3 bytes of pad; the ICRC then covers the rest of it.
  store_be32(icrc_at - pad_of(payload_bytes), 0);
  const uint32_t icrc = icrc_of({buffer.data() + path.ip_offset(), icrc_at});
  std::memcpy(icrc_at, &icrc, sizeof icrc);  // Least significant byte first.
  return frame;
}

}  // namespace uroce::wire
