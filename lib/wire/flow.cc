// Decision: a frame whose 42 bytes of headers equal those of the last one is not checked again up to UDP. The
// proof for the last one holds for the same bytes. Cost: peers that count up the IPv4 identification take the
// slow path.
#include "wire/flow.h"

#include <array>

#include "wire/big_endian.h"
#include "wire/internet_checksum.h"

namespace uroce::wire {
namespace {

using Mask = std::array<std::byte, kPlainHeaderBytes>;

constexpr size_t kSourcePort = kEthernetBytes + kIpv4Bytes;

/// Ones over everything but the UDP source port, which each queue pair of a peer may have to itself.
constexpr Mask make_all_but_source_port() {
  Mask mask{};
  mask.fill(std::byte{0xFF});
  mask[kSourcePort] = mask[kSourcePort + 1] = std::byte{0};
  return mask;
}
constexpr Mask kAllButSourcePort = make_all_but_source_port();

/// Ones over what all frames of a flow have in common: nor lengths, identification and the header checksum.
constexpr Mask make_common_mask() {
  Mask mask = kAllButSourcePort;
  for (const unsigned ip : {2u, 3u, 4u, 5u, 10u, 11u}) mask[kEthernetBytes + ip] = std::byte{0};
  for (const unsigned udp : {4u, 5u}) mask[kEthernetBytes + kIpv4Bytes + udp] = std::byte{0};
  return mask;
}
constexpr Mask kCommon = make_common_mask();

bool differ(const PlainHeaders& differences, const Mask& in) {
  return !(differences & PlainHeaders(in.data())).are_zero();
}

/// Lengths and the header checksum are right by themselves.
bool is_consistent(const std::byte* ip, size_t total) {
  return total >= kIpv4Bytes + kUdpBytes && load_be16(ip + kIpv4Bytes + 4) == total - kIpv4Bytes &&
         fold_sum(add_words({ip, kIpv4Bytes})) == 0xFFFF;
}

}  // namespace

void FlowCache::learn(const Packet& packet) {
  if (!packet.ipv4 || packet.has_vlan) return forget();
  ip_bytes_ = packet.ip_packet.size() + kIcrcBytes;
  headers_ = PlainHeaders(packet.ip_packet.data() - kEthernetBytes);
  forget_packet();
  flow_ = packet;
}

size_t FlowCache::match_varied(const std::byte* frame, const PlainHeaders& headers) {
  const PlainHeaders differences = headers ^ headers_;
  if (differ(differences, kAllButSourcePort)) {
    const std::byte* const ip = frame + kEthernetBytes;
    const size_t total = load_be16(ip + 2);
    if (differ(differences, kCommon) || !is_consistent(ip, total)) return 0;
    ip_bytes_ = total;
  }
  headers_ = headers;
  forget_packet();
  flow_.udp_source_port = load_be16(frame + kSourcePort);
  return ip_bytes_;
}

}  // namespace uroce::wire
