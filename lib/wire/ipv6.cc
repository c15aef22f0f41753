#include <cstring>

#include "wire/big_endian.h"
#include "wire/layers.h"

namespace uroce::wire {
namespace {

constexpr uint8_t kHopByHop = 0;
constexpr uint8_t kRouting = 43;
constexpr uint8_t kFragment = 44;
constexpr uint8_t kDestinationOptions = 60;

/// What to call a packet whose next header is not UDP. RoCEv2 has no use for extension headers, but ICMPv6
/// has (a listener report is behind a hop-by-hop header): only one that leads straight to UDP is ours to
/// drop.
ParseOutcome judge_extension(std::span<const std::byte> bytes) {
  const uint8_t next = load_u8(bytes.data() + 6);
  const bool options = next == kHopByHop || next == kRouting || next == kDestinationOptions;
  if (!options && next != kFragment) return not_roce();
  if (bytes.size() < kIpv6Bytes + 8) return dropped(Counter::kDropTruncated);
  const std::byte* extension = bytes.data() + kIpv6Bytes;
  if (load_u8(extension) != kProtocolUdp) return not_roce();
  if (next == kFragment) return dropped(Counter::kDropFragment);
  const size_t udp = kIpv6Bytes + (load_u8(extension + 1) + 1u) * 8;
  if (bytes.size() < udp + kUdpBytes) return dropped(Counter::kDropTruncated);
  if (load_be16(bytes.data() + udp + 2) != kRoceUdpPort) return not_roce();
  return dropped(Counter::kDropIpHeader);
}

}  // namespace

ParseOutcome parse_ipv6(std::span<const std::byte> bytes, Packet& packet) {
  if (bytes.size() < kIpv6Bytes) return dropped(Counter::kDropTruncated);
  const std::byte* header = bytes.data();
  const uint32_t first_word = load_be32(header);
  if (first_word >> 28 != 6) return dropped(Counter::kDropIpHeader);
  if (load_u8(header + 6) != kProtocolUdp) [[unlikely]]
    return judge_extension(bytes);

  const size_t total = kIpv6Bytes + load_be16(header + 4);
  if (total < kIpv6Bytes + kUdpBytes) return dropped(Counter::kDropIpHeader);
  if (total > bytes.size()) return dropped(Counter::kDropTruncated);

  packet.ipv4 = false;
  packet.traffic_class = static_cast<uint8_t>(first_word >> 20);
  packet.hop_limit = load_u8(header + 7);
  std::memcpy(packet.source.bytes.data(), header + 8, 16);
  std::memcpy(packet.destination.bytes.data(), header + 24, 16);
  packet.ip_packet = bytes.first(total - kIcrcBytes);
  return parse_udp(bytes.subspan<8, 32>(), bytes.first(total).subspan(kIpv6Bytes), packet);
}

}  // namespace uroce::wire
