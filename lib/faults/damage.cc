#include "faults/damage.h"

#include <cstring>
#include <span>

#include "wire/frame.h"
#include "wire/header_sizes.h"
#include "wire/internet_checksum.h"
#include "wire/opcode.h"

namespace uroce::faults {
namespace {

constexpr std::byte kCongestionExperienced{0x03};

std::byte* ip_header(port::RxFrame& frame, const wire::Packet& packet) {
  return frame.data + (packet.ip_packet.data() - frame.data);
}

void store_icrc(port::RxFrame& frame, const wire::Packet& packet, uint32_t icrc) {
  wire::write_icrc(ip_header(frame, packet) + packet.ip_packet.size(), icrc);
  frame.has_icrc = true;
}

/// For an IPv4 header without options, as all RoCE packets have it.
void renew_checksum(std::byte* ip) {
  constexpr size_t kChecksumAt = 10;
  std::memset(ip + kChecksumAt, 0, sizeof(uint16_t));
  const auto sum = static_cast<uint16_t>(~wire::fold_sum(wire::add_words({ip, wire::kIpv4Bytes})));
  std::memcpy(ip + kChecksumAt, &sum, sizeof sum);
}

}  // namespace

void corrupt(port::RxFrame& frame, const wire::Packet& packet, uint64_t which) {
  if (!frame.has_icrc) store_icrc(frame, packet, wire::icrc_of(packet.ip_packet));
  const size_t before =
      (packet.ipv4 ? wire::kIpv4Bytes : wire::kIpv6Bytes) + wire::kUdpBytes + wire::kBthBytes;
  const size_t bits = (packet.ip_packet.size() + wire::kIcrcBytes - before) * 8;
  const size_t bit = which % bits;
  ip_header(frame, packet)[before + bit / 8] ^= std::byte{1} << bit % 8;
}

void mark_congestion(port::RxFrame& frame, const wire::Packet& packet) {
  std::byte* const ip = ip_header(frame, packet);
  // The traffic class is the second byte with IPv4, and lies across the first two with IPv6.
  ip[1] |= packet.ipv4 ? kCongestionExperienced : kCongestionExperienced << 4;
  if (packet.ipv4) renew_checksum(ip);
}

bool is_intact(const port::RxFrame& frame, const wire::Packet& packet) {
  return !frame.has_icrc || wire::icrc_matches(packet);
}

void spoil_icrc(port::RxFrame& frame, const wire::Packet& packet) {
  store_icrc(frame, packet, ~wire::icrc_of(packet.ip_packet));
}

}  // namespace uroce::faults
