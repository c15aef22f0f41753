#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "wire/big_endian.h"
#include "wire/header_sizes.h"
#include "wire/internet_checksum.h"
#include "wire/packet.h"

namespace uroce::drivers {

/// The headers of an untagged RoCE frame up to UDP, IPv4 without options or IPv6 without extensions, as far
/// as a GSO frame has them once for all of its segments.
class RoceHeaders {
 public:
  static constexpr uint32_t kIpv4 = wire::kEthernetBytes + wire::kIpv4Bytes + wire::kUdpBytes;
  static constexpr uint32_t kIpv6 = wire::kEthernetBytes + wire::kIpv6Bytes + wire::kUdpBytes;

  /// Their length, or 0 when the frame has others, or is a fragment. Reads `bytes` bytes at most.
  static uint32_t length(const std::byte* frame, size_t bytes) {
    using wire::load_be16;
    using wire::load_u8;
    if (bytes < kIpv6) return bytes < kIpv4 ? 0 : length_ipv4(frame);
    if (load_be16(frame + 12) != wire::kEtherTypeIpv6) return length_ipv4(frame);
    const std::byte* const ip = frame + wire::kEthernetBytes;
    const bool roce =
        load_u8(ip + 6) == wire::kProtocolUdp && load_be16(frame + kIpv6 - 6) == wire::kRoceUdpPort;
    return roce ? kIpv6 : 0;
  }

  /// Bytes of the frame by its IP header, without what pads or follows it.
  static size_t frame_bytes(const std::byte* frame, uint32_t length) {
    const std::byte* const ip = frame + wire::kEthernetBytes;
    return length == kIpv4 ? wire::kEthernetBytes + size_t{wire::load_be16(ip + 2)}
                           : wire::kEthernetBytes + wire::kIpv6Bytes + size_t{wire::load_be16(ip + 4)};
  }

  /// Makes them those of a frame with `payload_bytes` behind UDP and, of IPv4, this identification. The UDP
  /// checksum becomes `checksum`, as it lies in memory.
  static void set(std::byte* frame, uint32_t length, size_t payload_bytes, uint16_t identification,
                  uint16_t checksum) {
    std::byte* const ip = frame + wire::kEthernetBytes;
    std::byte* const udp = frame + length - wire::kUdpBytes;
    const auto udp_bytes = static_cast<uint16_t>(wire::kUdpBytes + payload_bytes);
    wire::store_be16(udp + 4, udp_bytes);
    std::memcpy(udp + 6, &checksum, sizeof checksum);
    if (length == kIpv6) return wire::store_be16(ip + 4, udp_bytes);
    wire::store_be16(ip + 2, static_cast<uint16_t>(wire::kIpv4Bytes + udp_bytes));
    wire::store_be16(ip + 4, identification);
    wire::store_be16(ip + 10, 0);
    const auto sum = static_cast<uint16_t>(~wire::fold_sum(wire::add_words({ip, wire::kIpv4Bytes})));
    std::memcpy(ip + 10, &sum, sizeof sum);
  }

  /// The sum of the pseudo-header, with which a UDP checksum that is left to others begins.
  static uint16_t pseudo_sum(const std::byte* frame, uint32_t length, size_t payload_bytes) {
    const size_t addresses = length == kIpv4 ? 8 : 32;
    const std::byte* const udp = frame + length - wire::kUdpBytes;
    const auto udp_bytes = static_cast<uint16_t>(wire::kUdpBytes + payload_bytes);
    const uint64_t sum = wire::add_words({udp - addresses, addresses});
    return wire::fold_sum(sum + wire::word_on_wire(wire::kProtocolUdp) + wire::word_on_wire(udp_bytes));
  }

  static uint16_t identification(const std::byte* frame) {
    return wire::load_be16(frame + wire::kEthernetBytes + 4);
  }
  static bool has_checksum(const std::byte* frame, uint32_t length) {
    return wire::load_be16(frame + length - 2) != 0;
  }

  /// Whether two frames have the same headers but for lengths and checksums, so that they are of one flow.
  static bool same_flow(const std::byte* one, const std::byte* other, uint32_t length) {
    const auto same = [&](size_t begin, size_t end) {
      return std::memcmp(one + begin, other + begin, end - begin) == 0;
    };
    constexpr size_t kIp = wire::kEthernetBytes;
    const bool same_ip = length == kIpv4
                             ? same(0, kIp + 2) && same(kIp + 4, kIp + 10) && same(kIp + 12, kIpv4 - 4)
                             : same(0, kIp + 4) && same(kIp + 6, kIpv6 - 4);
    return same_ip && same(length - 2, length);
  }

 private:
  static constexpr uint8_t kVersionAndLength = 0x45;  // no options
  static constexpr uint16_t kFragment = 0x3FFF;       // more of them, or an offset

  static uint32_t length_ipv4(const std::byte* frame) {
    const std::byte* const ip = frame + wire::kEthernetBytes;
    const bool roce = wire::load_be16(frame + 12) == wire::kEtherTypeIpv4 &&
                      wire::load_u8(ip) == kVersionAndLength && (wire::load_be16(ip + 6) & kFragment) == 0 &&
                      wire::load_u8(ip + 9) == wire::kProtocolUdp &&
                      wire::load_be16(frame + kIpv4 - 6) == wire::kRoceUdpPort;
    return roce ? kIpv4 : 0;
  }
};

}  // namespace uroce::drivers
