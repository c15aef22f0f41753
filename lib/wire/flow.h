#pragma once

#include <smmintrin.h>

#include <cstddef>
#include <span>

#include "wire/layers.h"
#include "wire/packet.h"
#include "wire/transport.h"

namespace uroce::wire {

/// Ethernet, IPv4 and UDP.
inline constexpr size_t kPlainHeaderBytes = kEthernetBytes + kIpv4Bytes + kUdpBytes;

/// Whether two frames have the same headers up to UDP, each field of them.
inline bool have_same_headers(const std::byte* a, const std::byte* b) {
  const auto differences = [&](size_t at) {
    return _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a + at)),
                         _mm_loadu_si128(reinterpret_cast<const __m128i*>(b + at)));
  };
  // Three vectors cover the headers; the last one overlaps.
  constexpr size_t kVector = sizeof(__m128i);
  static_assert(kPlainHeaderBytes > 2 * kVector && kPlainHeaderBytes <= 3 * kVector);
  const __m128i all = _mm_or_si128(_mm_or_si128(differences(0), differences(kVector)),
                                   differences(kPlainHeaderBytes - kVector));
  return _mm_testz_si128(all, all) != 0;
}

/// The length of the IP packet when the frame's headers differ from those of one before it only in lengths,
/// identification and the header checksum, and these are right by themselves; 0 otherwise.
size_t ip_bytes_if_varied(const std::byte* frame, const std::byte* before);

/// Whether a frame belongs to the same flow as one before it, as most of a burst do: it begins as that one
/// did (MACs, addresses, ports, all but lengths), and nothing is wrong with it up to the UDP header. Then
/// this is the length of its IP packet, and whatever was found of `before` by its addresses holds for it,
/// too. 0: it is to be parsed by itself. `before` was parsed with success from a frame that is still there.
/// Untagged IPv4 only.
inline size_t ip_bytes_if_alike(std::span<const std::byte> frame, const Packet& before) {
  if (!before.ipv4 || before.has_vlan || frame.size() < kPlainHeaderBytes) return 0;
  const std::byte* const known = before.ip_packet.data() - kEthernetBytes;
  // Headers that are the same in each byte are as right as the others were.
  const size_t bytes = have_same_headers(frame.data(), known) ? before.ip_packet.size() + kIcrcBytes
                                                              : ip_bytes_if_varied(frame.data(), known);
  if (bytes > frame.size() - kEthernetBytes) return 0;
  // A checksum would be one of the payload, too.
  const bool has_checksum = load_be16(frame.data() + kPlainHeaderBytes - 2) != 0;
  return has_checksum ? 0 : bytes;
}

/// parse_frame() of such a frame, at a fraction of its cost.
inline ParseOutcome parse_alike(std::span<const std::byte> frame, size_t ip_bytes, const Packet& before,
                                Packet& packet) {
  static_cast<Flow&>(packet) = before;
  packet.ip_packet = {frame.data() + kEthernetBytes, ip_bytes - kIcrcBytes};
  return parse_transport({frame.data() + kPlainHeaderBytes, ip_bytes - kIpv4Bytes - kUdpBytes}, packet);
}

}  // namespace uroce::wire
