#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/values/identifiers.h"
#include "base/values/time.h"

// The messages by which routers and snooping switches learn which multicast groups hosts on a link receive:
// IGMP for IPv4 (RFC 1112, 2236, 3376) and MLD for IPv6 (RFC 2710, 3810). We understand queries and write
// reports; reports of others are not read (memberships.cc).
namespace uroce::net {

enum class MembershipProtocol : uint8_t { kIgmpV1, kIgmpV2, kIgmpV3, kMldV1, kMldV2 };

[[nodiscard]] constexpr bool is_ipv4(MembershipProtocol protocol) {
  return protocol <= MembershipProtocol::kIgmpV3;
}
/// Whether one report can be about several groups.
[[nodiscard]] constexpr bool has_records(MembershipProtocol protocol) {
  return protocol == MembershipProtocol::kIgmpV3 || protocol == MembershipProtocol::kMldV2;
}

/// A question of a router, or of a switch in its place, about groups of the link.
struct MembershipQuery {
  MembershipProtocol protocol = MembershipProtocol::kMldV2;
  std::optional<Gid> group;      // none: about all
  Duration max_response;         // the answer is to be sent within
  uint8_t robustness = 0;        // 0: not said
  Duration query_interval = {};  // of the querier; 0: not said
};

/// True for frames that parse_membership_query() may understand. `tag_bytes`: 4 behind a VLAN tag.
[[nodiscard]] bool looks_like_membership_query(std::span<const std::byte> frame, size_t tag_bytes = 0);

/// Nullopt: malformed, or one that a host ignores (RFC 3376 9.1, RFC 3810 6.2). A question about sources of a
/// group counts as one about the group.
std::optional<MembershipQuery> parse_membership_query(std::span<const std::byte> frame, size_t tag_bytes = 0);

/// What a report says of a group; the values are the types of records in IGMPv3 and MLDv2. We are members of
/// groups whichever source sends, which is an exclusion of no source.
enum class MembershipRecordType : uint8_t { kIsMember = 2, kLeft = 3, kJoined = 4 };

struct MembershipRecord {
  MembershipRecordType type = MembershipRecordType::kIsMember;
  Gid group;
};

struct MembershipReport {
  /// So many fit into the smallest frames of a port.
  static constexpr size_t kRecordsMax = 20;

  MembershipProtocol protocol = MembershipProtocol::kMldV2;
  MacAddress source_mac;
  Gid source;
  std::span<const MembershipRecord> records;  // up to kRecordsMax, or exactly one where not has_records()
};

/// The most that write_membership_report() writes: Ethernet, IPv6, router alert, the message.
inline constexpr uint32_t kMembershipFrameBytes = 14 + 40 + 8 + 8 + MembershipReport::kRecordsMax * 20;

/// Writes the untagged frame and returns its length. With IGMPv1, that has no message for it, 0 for kLeft.
uint32_t write_membership_report(std::span<std::byte> frame, const MembershipReport& report);

/// Whether members of the group are reported: all but those of the groups that every host is in, and of
/// groups that stay within a host.
[[nodiscard]] bool is_reported(const Gid& group);

}  // namespace uroce::net
