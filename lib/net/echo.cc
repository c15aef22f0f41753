#include "net/echo.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "net/derived_mac.h"
#include "wire/big_endian.h"
#include "wire/ecn.h"
#include "wire/internet_checksum.h"
#include "wire/vlan.h"

namespace uroce::net {
namespace {

constexpr size_t kMacBytes = 6;
constexpr size_t kEthernetBytes = 14;
constexpr size_t kIcmpBytes = 8;  // up to what is echoed
constexpr size_t kIpv4Bytes = 20;
constexpr size_t kIpv6Bytes = 40;
constexpr uint16_t kEtherTypeIpv4 = 0x0800;
constexpr uint16_t kEtherTypeIpv6 = 0x86DD;
constexpr uint16_t kDontFragment = 0x4000;
constexpr uint8_t kHopLimit = 64;

/// What the two versions of IP do differently.
struct Version {
  size_t header_bytes;
  size_t source;  // offset of the address, behind which the destination is
  size_t address_bytes;
  size_t protocol;  // offset of its number ...
  uint8_t icmp;     // ... which is this one
  size_t hop_limit;
  uint8_t ecn;  // the mask of these bits in the second byte
  uint8_t request;
  uint8_t reply;
};
constexpr Version kIpv4{kIpv4Bytes, 12, 4, 9, 1, 8, wire::kEcnMask, 8, 0};
constexpr Version kIpv6{kIpv6Bytes, 8, 16, 6, 58, 7, wire::kEcnMask << 4, 128, 129};

const Version* version_of(std::span<const std::byte> frame, size_t ip_at) {
  const uint16_t type = wire::load_be16(frame.data() + ip_at - 2);
  if (type == kEtherTypeIpv4 && frame.size() >= ip_at + kIpv4Bytes + kIcmpBytes) return &kIpv4;
  if (type == kEtherTypeIpv6 && frame.size() >= ip_at + kIpv6Bytes + kIcmpBytes) return &kIpv6;
  return nullptr;
}

Gid load_address(const Version& version, const std::byte* from) {
  Gid gid;
  std::memcpy(gid.bytes.data() + (sizeof gid.bytes - version.address_bytes), from, version.address_bytes);
  if (&version == &kIpv4) gid.bytes[10] = gid.bytes[11] = 0xFF;
  return gid;
}

/// Bytes of the ICMP message, if the header is one that we answer.
std::optional<size_t> message_bytes(const Version& version, const std::byte* ip, size_t available) {
  size_t bytes = 0;
  if (&version == &kIpv4) {
    const size_t total = wire::load_be16(ip + 2);
    const bool plain = wire::load_u8(ip) == 0x45 && (wire::load_be16(ip + 6) & ~kDontFragment) == 0;
    if (!plain || total < kIpv4Bytes) return std::nullopt;
    if (wire::fold_sum(wire::add_words({ip, kIpv4Bytes})) != 0xFFFF) return std::nullopt;
    bytes = total - kIpv4Bytes;
  } else {
    if (wire::load_u8(ip) >> 4 != 6) return std::nullopt;
    bytes = wire::load_be16(ip + 4);
  }
  if (bytes < kIcmpBytes || bytes > available) return std::nullopt;
  return bytes;
}

uint16_t icmp_sum(const Version& version, const std::byte* ip, std::span<const std::byte> message) {
  uint64_t pseudo_header = 0;  // ICMP of IPv4 has none
  if (&version == &kIpv6) {
    pseudo_header = wire::add_words({ip + version.source, 2 * version.address_bytes}) +
                    wire::word_on_wire(static_cast<uint16_t>(message.size())) +
                    wire::word_on_wire(version.icmp);
  }
  return wire::fold_sum(wire::add_words(message, pseudo_header));
}

void store_checksum(std::byte* at, uint16_t sum) {
  const auto checksum = static_cast<uint16_t>(~sum);
  std::memcpy(at, &checksum, sizeof checksum);
}

/// Turns the copy of a request into its reply.
void turn_round(const Version& version, std::span<std::byte> frame, size_t ip_at) {
  std::byte* const macs = frame.data();
  std::swap_ranges(macs, macs + kMacBytes, macs + kMacBytes);
  std::byte* const ip = frame.data() + ip_at;
  std::byte* const source = ip + version.source;
  std::swap_ranges(source, source + version.address_bytes, source + version.address_bytes);
  wire::store_u8(ip + version.hop_limit, kHopLimit);
  wire::store_u8(ip + 1, static_cast<uint8_t>(wire::load_u8(ip + 1) & ~version.ecn));
  if (&version == &kIpv4) {
    constexpr size_t kChecksum = 10;
    wire::store_be16(ip + kChecksum, 0);
    store_checksum(ip + kChecksum, wire::fold_sum(wire::add_words({ip, kIpv4Bytes})));
  }
  const std::span<std::byte> message = frame.subspan(ip_at + version.header_bytes);
  wire::store_u8(message.data(), version.reply);
  wire::store_be16(message.data() + 2, 0);
  store_checksum(message.data() + 2, icmp_sum(version, ip, message));
}

}  // namespace

bool looks_like_echo(std::span<const std::byte> frame, size_t tag_bytes) {
  const size_t ip_at = kEthernetBytes + tag_bytes;
  if (frame.size() < ip_at) return false;
  const Version* version = version_of(frame, ip_at);
  if (version == nullptr) return false;
  const std::byte* ip = frame.data() + ip_at;
  return wire::load_u8(ip + version->protocol) == version->icmp &&
         wire::load_u8(ip + version->header_bytes) == version->request;
}

uint32_t echo_reply(std::span<const std::byte> request, const GidTable& gids, std::span<std::byte> reply) {
  if (request.size() < kEthernetBytes) return 0;
  const bool tagged = wire::load_be16(request.data() + 2 * kMacBytes) == wire::kEtherTypeVlan;
  const size_t tag_bytes = tagged ? wire::kVlanTagBytes : 0;
  if (!looks_like_echo(request, tag_bytes)) return 0;
  const size_t ip_at = kEthernetBytes + tag_bytes;
  const Version& version = *version_of(request, ip_at);
  const std::byte* ip = request.data() + ip_at;
  const size_t before_message = ip_at + version.header_bytes;
  const auto bytes = message_bytes(version, ip, request.size() - before_message);
  if (!bytes || before_message + *bytes > reply.size()) return 0;
  const std::span<const std::byte> message = request.subspan(before_message, *bytes);
  if (wire::load_u8(message.data() + 1) != 0 || icmp_sum(version, ip, message) != 0xFFFF) return 0;

  const uint16_t vlan =
      tagged ? wire::vlan_of(wire::load_be16(request.data() + kEthernetBytes)) : uint16_t{0};
  const Gid source = load_address(version, ip + version.source);
  const Gid destination = load_address(version, ip + version.source + version.address_bytes);
  const bool from_group =
      is_multicast(source) || (wire::load_u8(request.data() + kMacBytes) & 1) != 0 || source == Gid{};
  if (from_group || !gids.owns(destination, vlan)) return 0;

  const std::span<const std::byte> whole = request.first(before_message + *bytes);
  std::ranges::copy(whole, reply.begin());
  turn_round(version, reply.first(whole.size()), ip_at);
  return static_cast<uint32_t>(whole.size());
}

}  // namespace uroce::net
