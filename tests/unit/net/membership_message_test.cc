// IGMP and MLD byte for byte, against what Linux 6.18 sends as a host and as a bridge with a querier.
#include "net/membership_message.h"

#include <gtest/gtest.h>

#include <string_view>

#include "membership_messages.h"
#include "net/vlan_tag.h"
#include "wire/address_text.h"

namespace uroce::net {
namespace {

using testing::bytes_of;
using testing::finished;
using testing::Frame;
using testing::message_at;
using enum MembershipProtocol;

Gid ip(const char* text) { return wire::parse_ip(text).value(); }

Frame written(MembershipProtocol protocol, MembershipRecordType type, const char* group) {
  const MembershipRecord record{type, ip(group)};
  Frame frame(kMembershipFrameBytes);
  frame.resize(write_membership_report(frame, {.protocol = protocol,
                                               .source_mac = {{2, 0, 0, 0, 0, 0x0A}},
                                               .source = is_ipv4(protocol) ? ip("192.0.2.10") : ip("fe80::a"),
                                               .records = {&record, 1}}));
  return frame;
}

TEST(MembershipReport, EachIsWhatLinuxSends) {
  const struct {
    MembershipProtocol protocol;
    MembershipRecordType type;
    const char* group;
    std::string_view bytes;
  } table[] = {
      {kIgmpV2, MembershipRecordType::kJoined, "239.1.2.3",
       "01005e01020302000000000a080046c000200000400001023109c000020aef010203940400001600f8faef010203"},
      {kIgmpV2, MembershipRecordType::kLeft, "239.1.2.3",
       "01005e00000202000000000a080046c00020000040000102420bc000020ae0000002940400001700f7faef010203"},
      {kIgmpV3, MembershipRecordType::kJoined, "239.1.2.3",
       "01005e00001602000000000a080046c0002800004000010241efc000020ae0000016940400002200e8f9000000010400"
       "0000ef010203"},
      {kIgmpV3, MembershipRecordType::kLeft, "239.1.2.3",
       "01005e00001602000000000a080046c0002800004000010241efc000020ae0000016940400002200e9f9000000010300"
       "0000ef010203"},
      {kMldV1, MembershipRecordType::kJoined, "ff02::1:ff00:a",
       "3333ff00000a02000000000a86dd6000000000200001fe80000000000000000000000000000aff020000000000000000"
       "0001ff00000a3a000502000001008300820400000000ff0200000000000000000001ff00000a"},
      {kMldV1, MembershipRecordType::kLeft, "ff0e::1:2",
       "33330000000202000000000a86dd6000000000200001fe80000000000000000000000000000aff020000000000000000"
       "0000000000023a0005020000010084007f0b00000000ff0e0000000000000000000000010002"},
      {kMldV2, MembershipRecordType::kJoined, "ff02::1:ff00:a",
       "33330000001602000000000a86dd6000000000240001fe80000000000000000000000000000aff020000000000000000"
       "0000000000163a000502000001008f0070f50000000104000000ff0200000000000000000001ff00000a"},
      {kMldV2, MembershipRecordType::kLeft, "ff0e::1:2",
       "33330000001602000000000a86dd6000000000240001fe80000000000000000000000000000aff020000000000000000"
       "0000000000163a000502000001008f0070f20000000103000000ff0e0000000000000000000000010002"},
  };
  for (const auto& row : table)
    EXPECT_EQ(written(row.protocol, row.type, row.group), bytes_of(row.bytes)) << row.bytes;
}

TEST(MembershipReport, VersionOneOfIgmpHasAReportAndNoLeave) {
  const auto report = testing::read_report(written(kIgmpV1, MembershipRecordType::kJoined, "239.1.2.3"));
  ASSERT_TRUE(report);
  EXPECT_EQ(report->type, 0x12);
  EXPECT_TRUE(written(kIgmpV1, MembershipRecordType::kLeft, "239.1.2.3").empty());
}

TEST(MembershipReport, SeveralGroupsAreInOneWhereTheVersionHasRecords) {
  const MembershipRecord records[] = {{MembershipRecordType::kIsMember, ip("ff0e::1")},
                                      {MembershipRecordType::kLeft, ip("ff0e::2")}};
  Frame frame(kMembershipFrameBytes);
  frame.resize(write_membership_report(
      frame, {.protocol = kMldV2, .source_mac = {}, .source = ip("fe80::a"), .records = records}));
  const auto report = testing::read_report(frame);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->groups, (std::vector<std::pair<uint8_t, Gid>>{{2, ip("ff0e::1")}, {3, ip("ff0e::2")}}));
}

TEST(MembershipReport, WhatEveryHostIsInIsNotReported) {
  for (const char* group : {"224.0.0.1", "ff02::1", "ff01::5", "ff00::5", "ff11::1"})
    EXPECT_FALSE(is_reported(ip(group))) << group;
  for (const char* group : {"224.0.0.2", "239.1.2.3", "ff02::1:ff00:a", "ff02::2", "ff05::1", "ff12::7"})
    EXPECT_TRUE(is_reported(ip(group))) << group;
}

TEST(MembershipQuery, EachOfLinuxIsUnderstood) {
  const struct {
    std::string_view bytes;
    MembershipProtocol protocol;
    const char* group;
    uint8_t robustness;
  } table[] = {
      {testing::kIgmpV2General, kIgmpV2, nullptr, 0},
      {testing::kIgmpV2Specific, kIgmpV2, "239.1.2.3", 0},
      {testing::kIgmpV3Specific, kIgmpV3, "239.1.2.3", 2},
      {testing::kMldV1General, kMldV1, nullptr, 0},
      {testing::kMldV1Specific, kMldV1, "ff0e::1:2", 0},
      {testing::kMldV2Specific, kMldV2, "ff0e::1:2", 2},
  };
  for (const auto& row : table) {
    const auto query = parse_membership_query(bytes_of(row.bytes));
    ASSERT_TRUE(query) << row.bytes;
    EXPECT_EQ(query->protocol, row.protocol);
    EXPECT_EQ(query->group, row.group == nullptr ? std::nullopt : std::optional(ip(row.group)));
    EXPECT_EQ(query->max_response, seconds(1));
    EXPECT_EQ(query->robustness, row.robustness);
    EXPECT_EQ(query->query_interval, seconds(row.robustness == 0 ? 0 : 125));
  }
}

TEST(MembershipQuery, VersionOneOfIgmpIsTheOneWithoutATime) {
  Frame frame = bytes_of(testing::kIgmpV2Specific);
  frame[message_at(frame) + 1] = {};
  const auto query = parse_membership_query(finished(frame));
  ASSERT_TRUE(query);
  EXPECT_EQ(query->protocol, kIgmpV1);
  EXPECT_EQ(query->max_response, seconds(10));
  EXPECT_FALSE(query->group);
}

TEST(MembershipQuery, LongTimesHaveAnExponent) {
  EXPECT_EQ(parse_membership_query(testing::general_query(true, 0x80))->max_response, milliseconds(12'800));
  EXPECT_EQ(parse_membership_query(testing::general_query(true, 0xFF))->max_response,
            milliseconds(3'174'400));
  EXPECT_EQ(parse_membership_query(testing::general_query(false, 0x8000))->max_response,
            milliseconds(32'768));
  EXPECT_EQ(parse_membership_query(testing::general_query(false, 0xFFFF))->max_response,
            milliseconds(8'387'584));
}

TEST(MembershipQuery, BehindAVlanTagItIsTheSame) {
  Frame frame = testing::general_query(false, 1000);
  const auto length = static_cast<uint32_t>(frame.size());
  frame.resize(frame.size() + 4);
  put_tag(frame, length, 7);
  EXPECT_FALSE(looks_like_membership_query(frame));
  EXPECT_FALSE(parse_membership_query(frame));
  EXPECT_TRUE(parse_membership_query(frame, 4));
}

TEST(MembershipQuery, NoneThatIsCutShortOrDamagedIsUnderstood) {
  for (const auto bytes :
       {testing::kIgmpV2General, testing::kIgmpV3Specific, testing::kMldV1General, testing::kMldV2Specific}) {
    const Frame whole = bytes_of(bytes);
    for (size_t length = 0; length < whole.size(); ++length)
      EXPECT_FALSE(parse_membership_query(std::span(whole).first(length))) << length;
    for (size_t at = 14; at < whole.size(); ++at) {
      // Not covered by a checksum: IPv6's traffic class and flow label, and what of a hop-by-hop header is
      // padding.
      if (message_at(whole) > 14 + 24 && (at < 18 || (at >= 54 && at < 62))) continue;
      Frame damaged = whole;
      damaged[at] ^= std::byte{0x41};
      EXPECT_FALSE(parse_membership_query(damaged)) << bytes << " byte " << at;
    }
  }
}

/// RFC 3810 6.2, RFC 3376 9.1.
TEST(MembershipQuery, WhatAHostIgnoresIsNot) {
  const Frame mld = testing::general_query(false, 1000);
  const auto mld_with = [&](size_t at, uint8_t value) {
    Frame frame = mld;
    frame[at] = std::byte{value};
    return finished(frame);
  };
  EXPECT_TRUE(parse_membership_query(mld_with(0, 0x33)));
  EXPECT_FALSE(parse_membership_query(mld_with(21, 2))) << "more hops than one";
  EXPECT_FALSE(parse_membership_query(mld_with(22, 0x20))) << "a source that is not link-local";
  EXPECT_FALSE(parse_membership_query(mld_with(56, 1))) << "padding in place of the router alert";
  EXPECT_FALSE(parse_membership_query(mld_with(59, 1))) << "another router alert than MLD's";
  EXPECT_FALSE(parse_membership_query(mld_with(53, 2))) << "about all groups, but not to all hosts";

  Frame igmp = testing::general_query(true, 10);
  EXPECT_TRUE(parse_membership_query(igmp));
  igmp[33] = std::byte{2};
  EXPECT_FALSE(parse_membership_query(finished(igmp))) << "about all groups, but not to all hosts";
  igmp = bytes_of(testing::kIgmpV3Specific);
  igmp[message_at(igmp) + 11] = std::byte{1};
  EXPECT_FALSE(parse_membership_query(finished(igmp))) << "a source that is not there";
  igmp.resize(igmp.size() + 4);
  EXPECT_TRUE(parse_membership_query(finished(igmp))) << "a source of the group";
}

}  // namespace
}  // namespace uroce::net
