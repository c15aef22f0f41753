#include "net/neighbour_discovery.h"

#include <algorithm>
#include <cstring>

#include "base/values/contract.h"
#include "net/derived_mac.h"
#include "wire/big_endian.h"
#include "wire/internet_checksum.h"

namespace uroce::net {
namespace {

constexpr size_t kEthernetBytes = 14;
constexpr size_t kIpv6Bytes = 40;
constexpr size_t kMessageBytes = 24;  // up to the options
constexpr size_t kOptionBytes = 8;    // a link address
constexpr uint16_t kEtherTypeIpv6 = 0x86DD;
constexpr uint8_t kNextHeaderIcmpv6 = 58;
constexpr uint8_t kHopLimit = 255;  // what crossed a router has less
constexpr uint8_t kSolicitation = 135;
constexpr uint8_t kAdvertisement = 136;
constexpr uint8_t kSolicitedFlag = 0x40;
constexpr uint8_t kOverrideFlag = 0x20;
constexpr uint8_t kSourceLinkAddress = 1;
constexpr uint8_t kTargetLinkAddress = 2;

// Within the IPv6 header.
constexpr size_t kPayloadLength = 4;
constexpr size_t kNextHeader = 6;
constexpr size_t kHopLimitOffset = 7;
constexpr size_t kSource = 8;
constexpr size_t kDestination = 24;
// Within the ICMPv6 message.
constexpr size_t kCode = 1;
constexpr size_t kChecksum = 2;
constexpr size_t kFlags = 4;
constexpr size_t kTarget = 8;

constexpr uint32_t version_of(const std::byte* ip) { return std::to_integer<uint32_t>(*ip) >> 4; }

template <typename Address>
Address load(const std::byte* from) {
  Address address;
  std::memcpy(address.bytes.data(), from, address.bytes.size());
  return address;
}

template <typename Address>
void store(std::byte* to, const Address& address) {
  std::memcpy(to, address.bytes.data(), address.bytes.size());
}

uint16_t icmp_sum(const std::byte* ip, std::span<const std::byte> message) {
  const uint64_t pseudo_header = wire::add_words({ip + kSource, 32}) +
                                 wire::word_on_wire(static_cast<uint16_t>(message.size())) +
                                 wire::word_on_wire(kNextHeaderIcmpv6);
  return wire::fold_sum(wire::add_words(message, pseudo_header));
}

/// False when an option is malformed. The first link address of the right kind goes to `found`.
bool read_options(std::span<const std::byte> options, uint8_t kind, std::optional<MacAddress>& found) {
  while (!options.empty()) {
    if (options.size() < kOptionBytes) return false;
    const size_t bytes = wire::load_u8(options.data() + 1) * kOptionBytes;
    if (bytes == 0 || bytes > options.size()) return false;
    if (wire::load_u8(options.data()) == kind && bytes == kOptionBytes && !found) {
      found = load<MacAddress>(options.data() + 2);
    }
    options = options.subspan(bytes);
  }
  return true;
}

bool is_solicited_node(const Gid& gid) {
  return std::equal(gid.bytes.begin(), gid.bytes.begin() + 13, solicited_node({}).bytes.begin());
}

/// The rules about which neighbour may say what to which.
bool plausible(const DiscoveryMessage& message) {
  if (is_multicast(message.target) || message.target.is_ipv4() || is_multicast(message.source)) return false;
  if (message.link_address && is_multicast(*message.link_address)) return false;
  if (message.advertisement) return !(message.solicited && is_multicast(message.destination));
  const bool duplicate_detection = message.source == Gid{};
  return !duplicate_detection || (is_solicited_node(message.destination) && !message.link_address);
}

}  // namespace

bool looks_like_discovery(std::span<const std::byte> frame, size_t tag_bytes) {
  if (frame.size() < tag_bytes + kEthernetBytes + kIpv6Bytes + kMessageBytes) return false;
  const std::byte* ip = frame.data() + tag_bytes + kEthernetBytes;
  const uint8_t type = wire::load_u8(ip + kIpv6Bytes);
  return wire::load_be16(ip - 2) == kEtherTypeIpv6 && version_of(ip) == 6 &&
         wire::load_u8(ip + kNextHeader) == kNextHeaderIcmpv6 &&
         (type == kSolicitation || type == kAdvertisement);
}

std::optional<DiscoveryMessage> parse_discovery(std::span<const std::byte> frame) {
  if (!looks_like_discovery(frame)) return std::nullopt;
  const std::byte* ip = frame.data() + kEthernetBytes;
  const size_t length = wire::load_be16(ip + kPayloadLength);
  if (length < kMessageBytes || length > frame.size() - kEthernetBytes - kIpv6Bytes) return std::nullopt;
  const std::span<const std::byte> message(ip + kIpv6Bytes, length);
  if (wire::load_u8(ip + kHopLimitOffset) != kHopLimit || wire::load_u8(message.data() + kCode) != 0)
    return std::nullopt;
  if (icmp_sum(ip, message) != 0xFFFF) return std::nullopt;

  DiscoveryMessage result;
  result.advertisement = wire::load_u8(message.data()) == kAdvertisement;
  result.destination_mac = load<MacAddress>(frame.data());
  result.source_mac = load<MacAddress>(frame.data() + 6);
  result.source = load<Gid>(ip + kSource);
  result.destination = load<Gid>(ip + kDestination);
  result.target = load<Gid>(message.data() + kTarget);
  if (result.advertisement) {
    const uint8_t flags = wire::load_u8(message.data() + kFlags);
    result.solicited = (flags & kSolicitedFlag) != 0;
    result.override = (flags & kOverrideFlag) != 0;
  }
  const uint8_t kind = result.advertisement ? kTargetLinkAddress : kSourceLinkAddress;
  if (!read_options(message.subspan(kMessageBytes), kind, result.link_address)) return std::nullopt;
  if (!plausible(result)) return std::nullopt;
  return result;
}

uint32_t write_discovery(std::span<std::byte> frame, const DiscoveryMessage& message) {
  UROCE_ASSERT(frame.size() >= kDiscoveryFrameBytes);
  const size_t length = kMessageBytes + (message.link_address ? kOptionBytes : 0);
  std::memset(frame.data(), 0, kDiscoveryFrameBytes);
  store(frame.data(), message.destination_mac);
  store(frame.data() + 6, message.source_mac);
  wire::store_be16(frame.data() + 12, kEtherTypeIpv6);

  std::byte* ip = frame.data() + kEthernetBytes;
  wire::store_u8(ip, 6 << 4);
  wire::store_be16(ip + kPayloadLength, static_cast<uint16_t>(length));
  wire::store_u8(ip + kNextHeader, kNextHeaderIcmpv6);
  wire::store_u8(ip + kHopLimitOffset, kHopLimit);
  store(ip + kSource, message.source);
  store(ip + kDestination, message.destination);

  std::byte* icmp = ip + kIpv6Bytes;
  wire::store_u8(icmp, message.advertisement ? kAdvertisement : kSolicitation);
  if (message.advertisement) {
    wire::store_u8(icmp + kFlags, static_cast<uint8_t>((message.solicited ? kSolicitedFlag : 0) |
                                                       (message.override ? kOverrideFlag : 0)));
  }
  store(icmp + kTarget, message.target);
  if (message.link_address) {
    std::byte* option = icmp + kMessageBytes;
    wire::store_u8(option, message.advertisement ? kTargetLinkAddress : kSourceLinkAddress);
    wire::store_u8(option + 1, 1);
    store(option + 2, *message.link_address);
  }
  const auto checksum = static_cast<uint16_t>(~icmp_sum(ip, {icmp, length}));
  std::memcpy(icmp + kChecksum, &checksum, sizeof checksum);
  return static_cast<uint32_t>(kEthernetBytes + kIpv6Bytes + length);
}

Gid solicited_node(const Gid& address) {
  Gid group;
  group.bytes = {0xFF,
                 0x02,
                 0,
                 0,
                 0,
                 0,
                 0,
                 0,
                 0,
                 0,
                 0,
                 1,
                 0xFF,
                 address.bytes[13],
                 address.bytes[14],
                 address.bytes[15]};
  return group;
}

Gid all_nodes() {
  Gid group;
  group.bytes[0] = 0xFF;
  group.bytes[1] = 0x02;
  group.bytes[15] = 1;
  return group;
}

}  // namespace uroce::net
