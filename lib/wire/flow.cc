#include "wire/flow.h"

#include <smmintrin.h>

#include <array>

#include "wire/big_endian.h"
#include "wire/internet_checksum.h"
#include "wire/layers.h"

namespace uroce::wire {
namespace {

constexpr size_t kHeaderBytes = kEthernetBytes + kIpv4Bytes + kUdpBytes;
/// Three vectors cover the headers; the last one overlaps.
constexpr std::array<size_t, 3> kVectors = {0, sizeof(__m128i), kHeaderBytes - sizeof(__m128i)};

/// Ones over what all frames of a flow have in common: everything but lengths, identification and the header
/// checksum.
constexpr std::array<uint8_t, kHeaderBytes> make_common_mask() {
  std::array<uint8_t, kHeaderBytes> mask{};
  mask.fill(0xFF);
  for (const unsigned ip : {2u, 3u, 4u, 5u, 10u, 11u}) mask[kEthernetBytes + ip] = 0;
  for (const unsigned udp : {4u, 5u}) mask[kEthernetBytes + kIpv4Bytes + udp] = 0;
  return mask;
}
constexpr std::array<uint8_t, kHeaderBytes> kCommon = make_common_mask();

__m128i load(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }

bool have_all_in_common(const std::byte* a, const std::byte* b) {
  __m128i differences = _mm_setzero_si128();
  for (const size_t at : kVectors) {
    const __m128i different = _mm_xor_si128(load(a + at), load(b + at));
    differences = _mm_or_si128(differences, _mm_and_si128(different, load(kCommon.data() + at)));
  }
  return _mm_testz_si128(differences, differences) != 0;
}

}  // namespace

std::optional<ParseOutcome> parse_alike(std::span<const std::byte> frame, const Packet& before,
                                        Packet& packet) {
  if (!before.ipv4 || before.has_vlan || frame.size() < kHeaderBytes) return std::nullopt;
  const std::byte* const ip = frame.data() + kEthernetBytes;
  const std::byte* const udp = ip + kIpv4Bytes;
  if (!have_all_in_common(frame.data(), before.ip_packet.data() - kEthernetBytes)) return std::nullopt;
  const size_t total = load_be16(ip + 2);
  const bool right = total >= kIpv4Bytes + kUdpBytes && total <= frame.size() - kEthernetBytes &&
                     load_be16(udp + 4) == total - kIpv4Bytes && load_be16(udp + 6) == 0 &&
                     fold_sum(add_words({ip, kIpv4Bytes})) == 0xFFFF;
  if (!right) return std::nullopt;

  packet.source_mac = before.source_mac;
  packet.destination_mac = before.destination_mac;
  packet.has_vlan = false;
  packet.vlan_tci = 0;
  packet.source = before.source;
  packet.destination = before.destination;
  packet.ipv4 = true;
  packet.traffic_class = before.traffic_class;
  packet.hop_limit = before.hop_limit;
  packet.udp_source_port = before.udp_source_port;
  packet.ip_packet = {ip, total};
  return parse_transport(packet.ip_packet.subspan(kIpv4Bytes + kUdpBytes), packet);
}

}  // namespace uroce::wire
