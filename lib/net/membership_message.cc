// Decision: a query about sources of a group is answered as one about the group. We receive from all sources,
// and nothing of the list is stored.
//
// Decision: an IGMP query needs no router alert and may have any TTL, as in Linux, since old queriers send no
// alert. An MLD query must have both right. Cost: an IGMP query may come from beyond the link.
#include "net/membership_message.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/values/contract.h"
#include "net/derived_mac.h"
#include "wire/big_endian.h"
#include "wire/header_sizes.h"
#include "wire/internet_checksum.h"

namespace uroce::net {
namespace {

using wire::kEthernetBytes;
using wire::kIpv4Bytes;
using wire::kIpv6Bytes;

constexpr uint8_t kProtocolIgmp = 2;
constexpr uint8_t kProtocolIcmpv6 = 58;
constexpr uint8_t kHopByHop = 0;

// IPv4, and the router alert option (RFC 2113).
constexpr size_t kIpv4WithAlertBytes = 24;
constexpr uint32_t kIpv4RouterAlert = 0x94040000;
constexpr uint8_t kInternetControl = 0xC0;  // type of service (RFC 3376 4)
constexpr uint16_t kDontFragment = 0x4000;
constexpr uint16_t kFragment = 0x3FFF;  // offset, and that more follow

// IPv6's hop-by-hop header with the router alert option for MLD (RFC 2711) and two bytes of padding.
constexpr size_t kHopByHopBytes = 8;
constexpr size_t kHopByHopMax = 64;  // of queries; longer ones are ignored
constexpr uint8_t kRouterAlertOption = 5;
constexpr uint8_t kPadOne = 0;
constexpr std::array<uint8_t, kHopByHopBytes> kIpv6RouterAlert{
    kProtocolIcmpv6, 0, kRouterAlertOption, 2, 0, 0, 1, 0};

constexpr uint8_t kIgmpQuery = 0x11;
constexpr uint8_t kIgmpV1Report = 0x12;
constexpr uint8_t kIgmpV2Report = 0x16;
constexpr uint8_t kIgmpLeave = 0x17;
constexpr uint8_t kIgmpV3Report = 0x22;
constexpr uint8_t kMldQuery = 130;
constexpr uint8_t kMldReport = 131;
constexpr uint8_t kMldDone = 132;
constexpr uint8_t kMldV2Report = 143;

constexpr size_t kIgmpBytes = 8;          // of a query of version 1 or 2, and of what answers it
constexpr size_t kIgmpV3QueryBytes = 12;  // without sources
constexpr size_t kMldBytes = 24;
constexpr size_t kMldV2QueryBytes = 28;
constexpr size_t kReportHeadBytes = 8;  // up to the records

constexpr Duration kTenth = milliseconds(100);
constexpr Duration kIgmpV1Response = seconds(10);

constexpr Gid kAllSystems = Gid::from_ipv4({224, 0, 0, 1});
constexpr Gid kAllRouters = Gid::from_ipv4({224, 0, 0, 2});
constexpr Gid kIgmpV3Routers = Gid::from_ipv4({224, 0, 0, 22});

/// ff02::`last`.
constexpr Gid link_group(uint8_t last) {
  Gid group;
  group.bytes[0] = 0xFF;
  group.bytes[1] = 0x02;
  group.bytes[15] = last;
  return group;
}

Gid load_ipv4(const std::byte* from) {
  Gid gid = Gid::from_ipv4({});
  std::memcpy(gid.bytes.data() + 12, from, 4);
  return gid;
}

Gid load_ipv6(const std::byte* from) {
  Gid gid;
  std::memcpy(gid.bytes.data(), from, 16);
  return gid;
}

void store(std::byte* to, const MacAddress& mac) { std::memcpy(to, mac.bytes.data(), mac.bytes.size()); }

/// The address as it stands in a message of its family; returns what is behind it.
std::byte* store(std::byte* to, const Gid& gid) {
  const size_t bytes = gid.is_ipv4() ? 4 : 16;
  std::memcpy(to, gid.bytes.data() + (gid.bytes.size() - bytes), bytes);
  return to + bytes;
}

void store_checksum(std::byte* at, uint16_t sum) {
  const auto checksum = static_cast<uint16_t>(~sum);
  std::memcpy(at, &checksum, sizeof checksum);
}

uint16_t icmpv6_sum(const std::byte* ip, std::span<const std::byte> message) {
  const uint64_t pseudo_header = wire::add_words({ip + 8, 32}) +
                                 wire::word_on_wire(static_cast<uint16_t>(message.size())) +
                                 wire::word_on_wire(kProtocolIcmpv6);
  return wire::fold_sum(wire::add_words(message, pseudo_header));
}

/// A number that has become too large for `bits` bits is there as a mantissa and a 3-bit exponent, behind a
/// one (RFC 3376 4.1.1, RFC 3810 5.1.3).
constexpr int64_t expand(uint32_t code, uint32_t bits) {
  const uint32_t one = 1u << (bits - 1);
  if (code < one) return code;
  const uint32_t mantissa_bits = bits - 4;
  const uint32_t mantissa = (code & ((1u << mantissa_bits) - 1)) | 1u << mantissa_bits;
  const uint32_t exponent = (code >> mantissa_bits) & 7;
  return int64_t{mantissa} << (exponent + 3);
}
static_assert(expand(127, 8) == 127 && expand(128, 8) == 128 && expand(255, 8) == 31744);
static_assert(expand(32767, 16) == 32767 && expand(32768, 16) == 32768 && expand(65535, 16) == 8387584);

/// The robustness variable and the query interval of the newer protocols.
void load_querier(const std::byte* from, MembershipQuery& query) {
  query.robustness = wire::load_u8(from) & 7;
  query.query_interval = seconds(expand(wire::load_u8(from + 1), 8));
}

/// Whether a query was addressed as a host expects it: to all hosts, to the group that it is about, or to
/// this host alone. Linux's bridge asks all hosts about one group with IGMPv2 and MLDv1.
bool is_well_addressed(const Gid& destination, const std::optional<Gid>& group, const Gid& all_hosts) {
  return !is_multicast(destination) || destination == all_hosts || destination == group;
}

std::optional<MembershipQuery> parse_igmp(std::span<const std::byte> packet) {
  const std::byte* ip = packet.data();
  const size_t header = (wire::load_u8(ip) & 0x0Fu) * 4;
  const size_t total = wire::load_be16(ip + 2);
  if (header < kIpv4Bytes || total > packet.size() || total < header + kIgmpBytes) return std::nullopt;
  if ((wire::load_be16(ip + 6) & kFragment) != 0) return std::nullopt;
  if (wire::fold_sum(wire::add_words({ip, header})) != 0xFFFF) return std::nullopt;
  const std::span<const std::byte> message = packet.subspan(header, total - header);
  const std::byte* igmp = message.data();
  if (wire::load_u8(igmp) != kIgmpQuery || wire::fold_sum(wire::add_words(message)) != 0xFFFF)
    return std::nullopt;

  MembershipQuery query;
  const uint8_t code = wire::load_u8(igmp + 1);
  if (const Gid group = load_ipv4(igmp + 4); group != Gid::from_ipv4({})) query.group = group;
  if (message.size() == kIgmpBytes) {
    // Version 1 has no response time there, and asks about all groups.
    query.protocol = code == 0 ? MembershipProtocol::kIgmpV1 : MembershipProtocol::kIgmpV2;
    query.max_response = code == 0 ? kIgmpV1Response : kTenth * code;
    if (code == 0) query.group.reset();
  } else {
    if (message.size() < kIgmpV3QueryBytes) return std::nullopt;
    if (message.size() < kIgmpV3QueryBytes + size_t{wire::load_be16(igmp + 10)} * 4) return std::nullopt;
    query.protocol = MembershipProtocol::kIgmpV3;
    query.max_response = kTenth * expand(code, 8);
    load_querier(igmp + 8, query);
  }
  if (query.group && !is_multicast(*query.group)) return std::nullopt;
  if (!is_well_addressed(load_ipv4(ip + 16), query.group, kAllSystems)) return std::nullopt;
  return query;
}

/// Whether there is a router alert for MLD among the options of a hop-by-hop header. `options` begin behind
/// its length.
bool has_router_alert(std::span<const std::byte> options) {
  while (!options.empty()) {
    if (wire::load_u8(options.data()) == kPadOne) {
      options = options.subspan(1);
      continue;
    }
    if (options.size() < 2) return false;
    const size_t bytes = 2u + wire::load_u8(options.data() + 1);
    if (bytes > options.size()) return false;
    if (wire::load_u8(options.data()) == kRouterAlertOption)
      return bytes == 4 && wire::load_be16(options.data() + 2) == 0;
    options = options.subspan(bytes);
  }
  return false;
}

std::optional<MembershipQuery> parse_mld(std::span<const std::byte> packet) {
  const std::byte* ip = packet.data();
  const size_t length = wire::load_be16(ip + 4);
  const size_t options = (wire::load_u8(ip + kIpv6Bytes + 1) + 1u) * 8;
  if (length > packet.size() - kIpv6Bytes || options > kHopByHopMax || length < options + kMldBytes)
    return std::nullopt;
  // A querier is on the link: what crossed a router has another source, or no hop left.
  const Gid source = load_ipv6(ip + 8);
  const bool link_local = source.bytes[0] == 0xFE && (source.bytes[1] & 0xC0) == 0x80;
  if (!link_local || wire::load_u8(ip + 7) != 1) return std::nullopt;
  if (!has_router_alert(packet.subspan(kIpv6Bytes + 2, options - 2))) return std::nullopt;
  const std::span<const std::byte> message = packet.subspan(kIpv6Bytes + options, length - options);
  const std::byte* icmp = message.data();
  if (wire::load_u8(icmp) != kMldQuery || wire::load_u8(icmp + 1) != 0 || icmpv6_sum(ip, message) != 0xFFFF)
    return std::nullopt;

  MembershipQuery query;
  const uint16_t code = wire::load_be16(icmp + 4);
  if (const Gid group = load_ipv6(icmp + 8); group != Gid{}) query.group = group;
  if (message.size() == kMldBytes) {
    query.protocol = MembershipProtocol::kMldV1;
    query.max_response = milliseconds(code);
  } else {
    if (message.size() < kMldV2QueryBytes) return std::nullopt;
    if (message.size() < kMldV2QueryBytes + size_t{wire::load_be16(icmp + 26)} * 16) return std::nullopt;
    query.protocol = MembershipProtocol::kMldV2;
    query.max_response = milliseconds(expand(code, 16));
    load_querier(icmp + 24, query);
  }
  if (query.group && (!is_multicast(*query.group) || query.group->is_ipv4())) return std::nullopt;
  if (!is_well_addressed(load_ipv6(ip + 24), query.group, link_group(1))) return std::nullopt;
  return query;
}

Gid destination_of(const MembershipReport& report) {
  switch (report.protocol) {
    case MembershipProtocol::kIgmpV3:
      return kIgmpV3Routers;
    case MembershipProtocol::kMldV2:
      return link_group(22);
    default:
      break;
  }
  const MembershipRecord& record = report.records.front();
  if (record.type != MembershipRecordType::kLeft) return record.group;
  return is_ipv4(report.protocol) ? kAllRouters : link_group(2);
}

uint8_t type_of(const MembershipReport& report) {
  const bool left = report.records.front().type == MembershipRecordType::kLeft;
  switch (report.protocol) {
    case MembershipProtocol::kIgmpV1:
      return kIgmpV1Report;
    case MembershipProtocol::kIgmpV2:
      return left ? kIgmpLeave : kIgmpV2Report;
    case MembershipProtocol::kIgmpV3:
      return kIgmpV3Report;
    case MembershipProtocol::kMldV1:
      return left ? kMldDone : kMldReport;
    case MembershipProtocol::kMldV2:
      break;
  }
  return kMldV2Report;
}

/// The message without its checksum; returns its end.
std::byte* write_message(std::byte* message, const MembershipReport& report) {
  wire::store_u8(message, type_of(report));
  if (!has_records(report.protocol))
    return store(message + (is_ipv4(report.protocol) ? 4 : 8), report.records.front().group);
  wire::store_be16(message + 6, static_cast<uint16_t>(report.records.size()));
  std::byte* at = message + kReportHeadBytes;
  for (const MembershipRecord& record : report.records) {
    wire::store_u8(at, static_cast<uint8_t>(record.type));
    at = store(at + 4, record.group);  // neither sources nor auxiliary data
  }
  return at;
}

uint32_t write_igmp(std::byte* ip, const MembershipReport& report, const Gid& destination) {
  std::byte* const message = ip + kIpv4WithAlertBytes;
  const std::byte* const end = write_message(message, report);
  store_checksum(message + 2, wire::fold_sum(wire::add_words({message, end})));
  wire::store_u8(ip, 4 << 4 | kIpv4WithAlertBytes / 4);
  wire::store_u8(ip + 1, kInternetControl);
  wire::store_be16(ip + 2, static_cast<uint16_t>(end - ip));
  wire::store_be16(ip + 6, kDontFragment);
  wire::store_u8(ip + 8, 1);
  wire::store_u8(ip + 9, kProtocolIgmp);
  store(ip + 12, report.source);
  store(ip + 16, destination);
  wire::store_be32(ip + 20, kIpv4RouterAlert);
  store_checksum(ip + 10, wire::fold_sum(wire::add_words({ip, kIpv4WithAlertBytes})));
  return static_cast<uint32_t>(end - ip);
}

uint32_t write_mld(std::byte* ip, const MembershipReport& report, const Gid& destination) {
  std::byte* const message = ip + kIpv6Bytes + kHopByHopBytes;
  const std::byte* const end = write_message(message, report);
  wire::store_u8(ip, 6 << 4);
  wire::store_be16(ip + 4, static_cast<uint16_t>(end - (ip + kIpv6Bytes)));
  wire::store_u8(ip + 6, kHopByHop);
  wire::store_u8(ip + 7, 1);
  store(ip + 8, report.source);
  store(ip + 24, destination);
  std::memcpy(ip + kIpv6Bytes, kIpv6RouterAlert.data(), kIpv6RouterAlert.size());
  store_checksum(message + 2, icmpv6_sum(ip, {message, end}));
  return static_cast<uint32_t>(end - ip);
}

}  // namespace

bool looks_like_membership_query(std::span<const std::byte> frame, size_t tag_bytes) {
  const size_t ip_at = kEthernetBytes + tag_bytes;
  if (frame.size() < ip_at + kIpv4Bytes + kIgmpBytes) return false;
  const std::byte* ip = frame.data() + ip_at;
  const uint16_t type = wire::load_be16(ip - 2);
  if (type == wire::kEtherTypeIpv4) {
    const size_t header = (wire::load_u8(ip) & 0x0Fu) * 4;
    return wire::load_u8(ip) >> 4 == 4 && wire::load_u8(ip + 9) == kProtocolIgmp &&
           frame.size() >= ip_at + header + kIgmpBytes && wire::load_u8(ip + header) == kIgmpQuery;
  }
  if (type != wire::kEtherTypeIpv6 || frame.size() < ip_at + kIpv6Bytes + kHopByHopBytes) return false;
  const std::byte* extension = ip + kIpv6Bytes;
  const size_t message = ip_at + kIpv6Bytes + (wire::load_u8(extension + 1) + 1u) * 8;
  return wire::load_u8(ip) >> 4 == 6 && wire::load_u8(ip + 6) == kHopByHop &&
         wire::load_u8(extension) == kProtocolIcmpv6 && frame.size() > message &&
         wire::load_u8(frame.data() + message) == kMldQuery;
}

std::optional<MembershipQuery> parse_membership_query(std::span<const std::byte> frame, size_t tag_bytes) {
  if (!looks_like_membership_query(frame, tag_bytes)) return std::nullopt;
  const std::span<const std::byte> packet = frame.subspan(kEthernetBytes + tag_bytes);
  return wire::load_u8(packet.data()) >> 4 == 4 ? parse_igmp(packet) : parse_mld(packet);
}

uint32_t write_membership_report(std::span<std::byte> frame, const MembershipReport& report) {
  UROCE_ASSERT(frame.size() >= kMembershipFrameBytes && !report.records.empty());
  UROCE_ASSERT(report.records.size() <= (has_records(report.protocol) ? MembershipReport::kRecordsMax : 1));
  const bool left = report.records.front().type == MembershipRecordType::kLeft;
  if (report.protocol == MembershipProtocol::kIgmpV1 && left) return 0;
  const Gid destination = destination_of(report);
  const bool ipv4 = is_ipv4(report.protocol);
  std::memset(frame.data(), 0, kMembershipFrameBytes);
  store(frame.data(), multicast_mac(destination));
  store(frame.data() + 6, report.source_mac);
  wire::store_be16(frame.data() + 12, ipv4 ? wire::kEtherTypeIpv4 : wire::kEtherTypeIpv6);
  std::byte* const ip = frame.data() + kEthernetBytes;
  const uint32_t packet = ipv4 ? write_igmp(ip, report, destination) : write_mld(ip, report, destination);
  return static_cast<uint32_t>(kEthernetBytes + packet);
}

bool is_reported(const Gid& group) {
  if (group.is_ipv4()) return group != kAllSystems;
  constexpr uint8_t kScopeOfHost = 1;
  return (group.bytes[1] & 0x0F) > kScopeOfHost && group != link_group(1);
}

}  // namespace uroce::net
