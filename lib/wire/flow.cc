#include "wire/flow.h"

#include <array>

#include "wire/big_endian.h"
#include "wire/internet_checksum.h"

namespace uroce::wire {
namespace {

/// Ones over what all frames of a flow have in common: everything but lengths, identification and the header
/// checksum.
constexpr std::array<std::byte, kPlainHeaderBytes> make_common_mask() {
  std::array<std::byte, kPlainHeaderBytes> mask{};
  mask.fill(std::byte{0xFF});
  for (const unsigned ip : {2u, 3u, 4u, 5u, 10u, 11u}) mask[kEthernetBytes + ip] = std::byte{0};
  for (const unsigned udp : {4u, 5u}) mask[kEthernetBytes + kIpv4Bytes + udp] = std::byte{0};
  return mask;
}
constexpr std::array<std::byte, kPlainHeaderBytes> kCommon = make_common_mask();

}  // namespace

void FlowCache::learn(const Packet& packet) {
  if (!packet.ipv4 || packet.has_vlan) return forget();
  ip_bytes_ = packet.ip_packet.size() + kIcrcBytes;
  headers_ = PlainHeaders(packet.ip_packet.data() - kEthernetBytes);
  flow_ = packet;
}

size_t FlowCache::match_varied(const std::byte* frame, const PlainHeaders& headers) {
  const std::byte* const ip = frame + kEthernetBytes;
  const size_t total = load_be16(ip + 2);
  const bool alike =
      ((headers ^ headers_) & PlainHeaders(kCommon.data())).are_zero() && total >= kIpv4Bytes + kUdpBytes &&
      load_be16(ip + kIpv4Bytes + 4) == total - kIpv4Bytes && fold_sum(add_words({ip, kIpv4Bytes})) == 0xFFFF;
  if (!alike) return 0;
  ip_bytes_ = total;
  headers_ = headers;
  return total;
}

}  // namespace uroce::wire
