// Decision: a template keeps the headers of the last packet to the peer and the CRC of all before the PSN.
// The next packet of that length and opcode copies them; receivers compare and continue likewise
// (icrc/short.h, flow.h). Cost: messages of two lengths in turn write the headers each time (perf/run --only
// instructions).
#include "wire/frame.h"

#include <cstring>

#include "base/values/contract.h"
#include "wire/big_endian.h"
#include "wire/internet_checksum.h"
#include "wire/layers.h"

namespace uroce::wire {
namespace {

constexpr uint16_t kDoNotFragment = 0x4000;
/// The position of MigReq in the first two bytes of a BTH as beginning_of_bth() gives them.
constexpr uint32_t kMigReqShift = 8 + 6;

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
  UROCE_ASSERT(ipv4 == path.destination.is_ipv4());
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
  UROCE_ASSERT(bytes_ != 0);
  store_be16(image_.data() + bytes_ - kUdpBytes, port);
  kind_ = 0;
}

void FrameTemplate::set_peer(uint16_t partition_key, QpNumber destination, bool mig_req) {
  UROCE_ASSERT(bytes_ != 0);
  mig_req_ = mig_req;
  write_bth(image_.data() + bytes_, Bth{.partition_key = partition_key, .destination = destination}, 0);
  kind_ = 0;
}

void FrameTemplate::turn_to(uint32_t kind) {
  UROCE_ASSERT(bytes_ != 0);
  kind_ = kind;
  // Computed for the second packet of the kind, if there is one.
  icrc_before_psn_ = 0;
  set_lengths(image_.data() + ip_offset_, bytes_ - static_cast<uint32_t>(kUdpBytes) - ip_offset_, kind >> 16);
  const auto beginning = static_cast<uint16_t>(kind | uint32_t{mig_req_} << kMigReqShift);
  std::memcpy(image_.data() + bytes_, &beginning, sizeof beginning);
}

uint32_t frame_bytes(const FrameTemplate& path, Opcode opcode, uint32_t payload_bytes) {
  return FrameLayout(path, opcode_row(opcode), payload_bytes).end;
}

std::byte* write_headers(std::span<std::byte> buffer, const FrameTemplate& path, const Headers& headers,
                         uint32_t payload_bytes) {
  const OpcodeRow& row = opcode_row(headers.bth.opcode);
  UROCE_ASSERT(row.valid);
  const FrameLayout layout(path, row, payload_bytes);
  UROCE_ASSERT(layout.end <= buffer.size());
  write_headers(buffer.data(), path, row, headers, layout);
  return buffer.data() + layout.payload;
}

uint32_t finish_frame(std::span<std::byte> buffer, const FrameTemplate& path, Opcode opcode,
                      uint32_t payload_bytes) {
  const FrameLayout layout(path, opcode_row(opcode), payload_bytes);
  UROCE_ASSERT(layout.end <= buffer.size());
  write_pad_and_icrc(buffer.data(), path, layout);
  return layout.end;
}

void append_icrc(std::byte* ip_packet, size_t bytes) {
  write_icrc(ip_packet + bytes, icrc_of({ip_packet, bytes}));
}

void append_icrc_from(std::byte* psn, size_t bytes, uint32_t before) {
  write_icrc(psn + bytes, short_icrc_from(before, {psn, bytes}));
}

}  // namespace uroce::wire
