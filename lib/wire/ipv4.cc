#include <cstring>

#include "wire/big_endian.h"
#include "wire/internet_checksum.h"
#include "wire/layers.h"

namespace uroce::wire {
namespace {

constexpr uint8_t kVersionAndPlainHeader = 0x45;  // version 4, five words: no options
constexpr uint16_t kMoreFragments = 0x2000;
constexpr uint16_t kFragmentOffset = 0x1FFF;

/// ::ffff:a.b.c.d by stores alone: copying a GID that was just put together would wait for its bytes.
void set_mapped(Gid& gid, const std::byte* address) {
  constexpr uint64_t kZeros = 0;
  constexpr uint32_t kMark = 0xFFFF0000;  // bytes 00 00 ff ff
  std::memcpy(gid.bytes.data(), &kZeros, 8);
  std::memcpy(gid.bytes.data() + 8, &kMark, 4);
  std::memcpy(gid.bytes.data() + 12, address, 4);
}

/// What to call a UDP packet that has options or is a fragment: the drop reason if it is RoCE's as far as one
/// can tell. Later fragments carry no port, and nothing else here could use them.
ParseOutcome judge_unusual(std::span<const std::byte> bytes) {
  const size_t header_bytes = (load_u8(bytes.data()) & 0x0Fu) * 4;
  if (header_bytes < kIpv4Bytes) return dropped(Counter::kDropIpHeader);
  const uint16_t fragment = load_be16(bytes.data() + 6);
  if ((fragment & kFragmentOffset) != 0) return dropped(Counter::kDropFragment);
  if (bytes.size() < header_bytes + kUdpBytes) return dropped(Counter::kDropTruncated);
  if (load_be16(bytes.data() + header_bytes + 2) != kRoceUdpPort) return not_roce();
  return dropped((fragment & kMoreFragments) != 0 ? Counter::kDropFragment : Counter::kDropIpHeader);
}

}  // namespace

ParseOutcome parse_ipv4(std::span<const std::byte> bytes, Packet& packet) {
  if (bytes.size() < kIpv4Bytes) return dropped(Counter::kDropTruncated);
  const std::byte* header = bytes.data();
  const uint8_t version_and_words = load_u8(header);
  if (version_and_words >> 4 != 4) return dropped(Counter::kDropIpHeader);
  if (load_u8(header + 9) != kProtocolUdp) return not_roce();
  const bool fragment = (load_be16(header + 6) & (kMoreFragments | kFragmentOffset)) != 0;
  if (version_and_words != kVersionAndPlainHeader || fragment) [[unlikely]]
    return judge_unusual(bytes);

  const size_t total = load_be16(header + 2);
  if (fold_sum(add_words(bytes.first<kIpv4Bytes>())) != 0xFFFF) return dropped(Counter::kDropIpChecksum);
  if (total < kIpv4Bytes + kUdpBytes) return dropped(Counter::kDropIpHeader);
  if (total > bytes.size()) return dropped(Counter::kDropTruncated);

  packet.ipv4 = true;
  packet.traffic_class = load_u8(header + 1);
  packet.hop_limit = load_u8(header + 8);
  set_mapped(packet.source, header + 12);
  set_mapped(packet.destination, header + 16);
  packet.ip_packet = bytes.first(total - kIcrcBytes);
  return parse_udp(bytes.subspan<12, 8>(), bytes.first(total).subspan(kIpv4Bytes), packet);
}

}  // namespace uroce::wire
