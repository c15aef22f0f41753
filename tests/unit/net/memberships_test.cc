// A host's side of IGMP and MLD, in virtual time.
#include "net/memberships.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "membership_messages.h"
#include "net/links.h"
#include "net/vlan_tag.h"
#include "outbox.h"
#include "wire/address_text.h"

namespace uroce::net {
namespace {

using testing::Frame;
using testing::ReadReport;
using enum MembershipProtocol;

constexpr uint8_t kIsMember = 2;
constexpr uint8_t kLeft = 3;
constexpr uint8_t kJoined = 4;

Gid ip(const char* text) { return wire::parse_ip(text).value(); }
Gid nth(bool ipv4, unsigned n) {
  Gid gid = ip(ipv4 ? "239.1.0.0" : "ff0e::");
  gid.bytes[14] = static_cast<uint8_t>(n >> 8);
  gid.bytes[15] = static_cast<uint8_t>(n);
  return gid;
}

/// Both families have the same tests.
class MembershipsTest : public ::testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] bool ipv4() const { return GetParam(); }
  [[nodiscard]] Gid group(unsigned n = 1) const { return nth(ipv4(), n); }
  [[nodiscard]] MembershipQuery query(bool older, std::optional<Gid> about = {},
                                      Duration within = seconds(10)) const {
    const MembershipProtocol protocol = ipv4() ? (older ? kIgmpV2 : kIgmpV3) : (older ? kMldV1 : kMldV2);
    return {.protocol = protocol, .group = about, .max_response = within};
  }
  [[nodiscard]] uint8_t report_of(bool older) const {
    return ipv4() ? (older ? 0x16 : 0x22) : (older ? 131 : 143);
  }
  [[nodiscard]] uint8_t leave_of_older() const { return ipv4() ? 0x17 : 132; }

  /// What is sent until then, and when.
  struct Sent {
    Instant at;
    ReadReport report;
  };
  std::vector<Sent> run(Duration by) {
    std::vector<Sent> all;
    for (const Instant until = now + by;;) {
      const size_t count = host.pump(now, ip(ipv4() ? "192.0.2.1" : "fe80::1"), outbox.batch());
      const std::vector<Frame> frames = outbox.take();
      EXPECT_EQ(frames.size(), count);
      EXPECT_LE(count, Memberships::kReportsMax);
      for (const Frame& frame : frames) {
        const auto report = testing::read_report(frame);
        EXPECT_TRUE(report);
        if (report) all.push_back({now, *report});
      }
      if (host.deadline() > until) break;
      now = std::max(now, host.deadline());
    }
    return all;
  }
  /// Joins, and lets what follows of that be over.
  void be_member(unsigned groups = 1) {
    for (unsigned n = 1; n <= groups; ++n) host.join(group(n));
    static_cast<void>(run(seconds(100)));
    now = now + seconds(100);
  }

  Memberships host{{.ipv4 = GetParam(), .mac = {{2, 0, 0, 0, 0, 1}}, .seed = 7}};
  testing::Outbox outbox;
  Instant now{1'000'000'000};
};

INSTANTIATE_TEST_SUITE_P(Families, MembershipsTest, ::testing::Bool(),
                         [](const auto& family) { return family.param ? "Igmp" : "Mld"; });

TEST_P(MembershipsTest, AJoinedGroupIsReportedAtOnceAndOnceMoreWithinASecond) {
  host.join(group());
  EXPECT_LE(host.deadline(), now);
  const Instant joined = now;
  const auto sent = run(seconds(100));
  ASSERT_EQ(sent.size(), 2u);
  for (const Sent& each : sent) {
    EXPECT_EQ(each.report.type, report_of(false));
    EXPECT_EQ(each.report.groups, (std::vector<std::pair<uint8_t, Gid>>{{kJoined, group()}}));
  }
  EXPECT_EQ(sent[0].at, joined);
  EXPECT_LE(sent[1].at, joined + seconds(1));
  EXPECT_EQ(host.deadline(), kNever);
}

TEST_P(MembershipsTest, TheFirstUserJoinsAndTheLastOneLeaves) {
  be_member();
  host.join(group());
  host.leave(group());
  EXPECT_EQ(host.deadline(), kNever);
  host.leave(group());
  const auto sent = run(seconds(100));
  ASSERT_EQ(sent.size(), 2u);
  for (const Sent& each : sent)
    EXPECT_EQ(each.report.groups, (std::vector<std::pair<uint8_t, Gid>>{{kLeft, group()}}));
  host.leave(group());
  EXPECT_EQ(host.deadline(), kNever);
  EXPECT_TRUE(host.receive(query(false), now));
  EXPECT_TRUE(run(seconds(100)).empty());
}

TEST_P(MembershipsTest, AGeneralQueryIsAnsweredOnceForAllGroupsWithinItsTime) {
  be_member(3);
  const Instant asked = now;
  EXPECT_TRUE(host.receive(query(false, {}, seconds(4)), now));
  EXPECT_TRUE(host.receive(query(false, {}, seconds(4)), now));
  const auto sent = run(seconds(100));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_LE(sent[0].at, asked + seconds(4));
  EXPECT_EQ(sent[0].report.groups.size(), 3u);
  EXPECT_EQ(sent[0].report.groups[0], (std::pair<uint8_t, Gid>(kIsMember, group(1))));
}

TEST_P(MembershipsTest, AnswersAreSpreadOverTheTime) {
  be_member();
  Duration least = seconds(1000);
  Duration most{};
  for (int i = 0; i < 100; ++i) {
    const Instant asked = now;
    EXPECT_TRUE(host.receive(query(false), now));
    const auto sent = run(seconds(20));
    ASSERT_EQ(sent.size(), 1u);
    least = std::min(least, sent[0].at - asked);
    most = std::max(most, sent[0].at - asked);
    now = now + seconds(20);
  }
  EXPECT_LT(least, seconds(1));
  EXPECT_GT(most, seconds(9));
  EXPECT_LE(most, seconds(10));
}

TEST_P(MembershipsTest, AQueryAboutAGroupIsAnsweredForThatGroupAlone) {
  be_member(3);
  EXPECT_TRUE(host.receive(query(false, group(2), seconds(1)), now));
  const auto sent = run(seconds(100));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].report.groups, (std::vector<std::pair<uint8_t, Gid>>{{kIsMember, group(2)}}));
  EXPECT_TRUE(host.receive(query(false, group(9), seconds(1)), now));
  EXPECT_TRUE(run(seconds(100)).empty());
}

TEST_P(MembershipsTest, AnOlderQuerierIsAnsweredByOneMessageForEachGroup) {
  be_member(3);
  EXPECT_TRUE(host.receive(query(true), now));
  const auto sent = run(seconds(20));
  ASSERT_EQ(sent.size(), 3u);
  for (const Sent& each : sent) {
    EXPECT_EQ(each.report.type, report_of(true));
    EXPECT_EQ(each.report.groups.size(), 1u);
  }
  host.join(group(4));
  EXPECT_EQ(run(seconds(20)).size(), 2u);
  host.leave(group(4));
  const auto left = run(seconds(20));
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].report.type, leave_of_older());
}

TEST_P(MembershipsTest, TheNewerVersionIsBackWhenTheOlderQuerierHasNotAskedForLong) {
  be_member();
  EXPECT_TRUE(host.receive(query(true), now));
  static_cast<void>(run(seconds(20)));
  now = now + seconds(200);
  EXPECT_TRUE(host.receive(query(false), now));
  auto sent = run(seconds(20));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].report.type, report_of(true)) << "within 2 x 125 + 10 s";
  now = now + seconds(61);
  EXPECT_TRUE(host.receive(query(false), now));
  sent = run(seconds(20));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].report.type, report_of(false));
}

TEST_P(MembershipsTest, AChangeOfTheVersionCancelsWhatIsPendingButNoFirstReport) {
  host.join(group(1));
  host.pump(now, ip(ipv4() ? "192.0.2.1" : "fe80::1"), outbox.batch());
  static_cast<void>(outbox.take());
  host.join(group(2));
  EXPECT_TRUE(host.receive(query(true, group(9)), now));
  const auto sent = run(seconds(100));
  ASSERT_EQ(sent.size(), 2u);
  for (const Sent& each : sent)
    EXPECT_EQ(each.report.groups, (std::vector<std::pair<uint8_t, Gid>>{{0, group(2)}}));
}

TEST_P(MembershipsTest, TheQuerierSaysHowOftenReportsAreRepeated) {
  MembershipQuery robust = query(false);
  robust.robustness = 4;
  EXPECT_TRUE(host.receive(robust, now));
  host.join(group());
  EXPECT_EQ(run(seconds(100)).size(), 4u);
}

TEST_P(MembershipsTest, WhateverIsAskedAGroupIsReportedTenTimesASecondAtMost) {
  be_member();
  size_t sent = 0;
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_TRUE(
        host.receive(query(i % 2 == 0, i % 3 == 0 ? std::optional(group()) : std::nullopt, Duration{}), now));
    sent += run(microseconds(99)).size();
    now = now + microseconds(100);
  }
  EXPECT_GE(sent, 5u);
  EXPECT_LE(sent, 11u);
}

TEST_P(MembershipsTest, ReportsOfManyGroupsHaveARateAndLoseNone) {
  constexpr unsigned kGroups = 1000;
  be_member(kGroups);
  EXPECT_TRUE(host.receive(query(true, {}, Duration{}), now));
  const Instant asked = now;
  const auto sent = run(seconds(100));
  ASSERT_EQ(sent.size(), kGroups);
  for (size_t i = 0; i < sent.size(); ++i)
    EXPECT_GE(sent[i].at,
              asked + Memberships::kReportsEvery * static_cast<int64_t>(i / Memberships::kReportsMax));
}

TEST_P(MembershipsTest, OnlySoManyGroupsThatWereLeftAreRemembered) {
  be_member(1000);
  for (unsigned n = 1; n <= 1000; ++n) host.leave(group(n));
  size_t groups = 0;
  for (const Sent& each : run(seconds(100))) groups += each.report.groups.size();
  EXPECT_EQ(groups, 2 * Memberships::kLeftMax);
  EXPECT_EQ(host.deadline(), kNever);
}

TEST_P(MembershipsTest, AFullBatchDelaysAReport) {
  host.join(group());
  while (port::TxFrame* const frame = outbox.batch().next()) {
    frame->length = 60;
    outbox.batch().commit();
  }
  EXPECT_EQ(host.pump(now, {}, outbox.batch()), 0u);
  EXPECT_LE(host.deadline(), now);
  static_cast<void>(outbox.take());
  EXPECT_EQ(run({}).size(), 1u);
}

TEST_P(MembershipsTest, GroupsAndQueriesOfTheOtherFamilyAreNotOurs) {
  host.join(nth(!ipv4(), 1));
  host.join(ip(ipv4() ? "224.0.0.1" : "ff02::1"));
  EXPECT_EQ(host.deadline(), kNever);
  EXPECT_FALSE(host.receive({.protocol = ipv4() ? kMldV2 : kIgmpV3, .group = {}, .max_response = {}}, now));
}

TEST(MembershipsOfIgmp, AQuerierOfVersionOneGetsItsReportsAndNoLeave) {
  Memberships host({.ipv4 = true, .mac = {{2, 0, 0, 0, 0, 1}}});
  testing::Outbox outbox;
  Instant now{1};
  host.join(nth(true, 1));
  EXPECT_TRUE(host.receive({.protocol = kIgmpV1, .group = {}, .max_response = seconds(10)}, now));
  EXPECT_TRUE(host.receive({.protocol = kIgmpV2, .group = {}, .max_response = seconds(10)}, now));
  EXPECT_EQ(host.protocol(now), kIgmpV1);
  host.pump(now, ip("192.0.2.1"), outbox.batch());
  const auto frames = outbox.take();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(testing::read_report(frames[0])->type, 0x12);
  host.leave(nth(true, 1));
  host.pump(now, ip("192.0.2.1"), outbox.batch());
  EXPECT_TRUE(outbox.take().empty());
  EXPECT_EQ(host.deadline(), kNever);
}

// ---- All links of a port

/// The groups of the reports that are due, with the VLAN of each.
std::vector<std::pair<uint16_t, Gid>> reported(Links& links, testing::Outbox& outbox, Instant& now) {
  std::vector<std::pair<uint16_t, Gid>> all;
  links.pump(now, outbox.batch());
  for (Frame frame : outbox.take()) {
    uint16_t vlan = 0;
    if (wire::load_be16(frame.data() + 12) == 0x8100) {
      vlan = wire::load_be16(frame.data() + 14);
      frame.erase(frame.begin() + 12, frame.begin() + 16);
    }
    const auto report = testing::read_report(frame);
    if (!report) continue;
    for (const auto& [type, group] : report->groups) all.emplace_back(vlan, group);
  }
  std::ranges::sort(all);
  return all;
}

TEST(LinksThatReport, SolicitedNodeGroupsComeAndGoWithTheirAddresses) {
  Links links({{.mac = {{2, 0, 0, 0, 0, 0x0A}},
                .addresses = {{ip("192.0.2.1"), 24}, {ip("2001:db8::1"), 64}},
                .report_groups = true}});
  testing::Outbox outbox;
  Instant now{1'000'000'000};
  const Gid of_link_local = ip("ff02::1:ff00:a");
  using Reports = std::vector<std::pair<uint16_t, Gid>>;
  EXPECT_EQ(reported(links, outbox, now), (Reports{{0, ip("ff02::1:ff00:1")}, {0, of_link_local}}));
  now = now + seconds(10);
  static_cast<void>(reported(links, outbox, now));
  // Another address with the same group.
  links.add_address(0, {ip("2001:db8:1::1"), 64});
  EXPECT_TRUE(reported(links, outbox, now).empty());
  links.remove_address(0, ip("2001:db8::1"));
  EXPECT_TRUE(reported(links, outbox, now).empty());
  links.remove_address(0, ip("2001:db8:1::1"));
  EXPECT_EQ(reported(links, outbox, now), (Reports{{0, ip("ff02::1:ff00:1")}}));
}

TEST(LinksThatReport, AGroupIsJoinedInEachVlanAndInThoseThatComeLater) {
  const MacAddress mac{{2, 0, 0, 0, 0, 0x0A}};
  Links links({{.mac = mac, .addresses = {}, .report_groups = true}});
  testing::Outbox outbox;
  Instant now{1'000'000'000};
  static_cast<void>(reported(links, outbox, now));
  now = now + seconds(10);
  static_cast<void>(reported(links, outbox, now));
  const Gid group = ip("239.1.2.3");
  links.join(group);
  using Reports = std::vector<std::pair<uint16_t, Gid>>;
  EXPECT_EQ(reported(links, outbox, now), (Reports{{0, group}}));
  now = now + seconds(10);
  static_cast<void>(reported(links, outbox, now));
  links.add({.mac = mac, .vlan = 7, .addresses = {}, .report_groups = true});
  EXPECT_EQ(reported(links, outbox, now), (Reports{{7, group}}));
  now = now + seconds(10);
  static_cast<void>(reported(links, outbox, now));
  // A query in one VLAN is answered there.
  Frame frame = testing::general_query(true, 1);
  const auto length = static_cast<uint32_t>(frame.size());
  frame.resize(frame.size() + 4);
  put_tag(frame, length, 7);
  EXPECT_TRUE(links.receive_query(frame, now));
  now = now + seconds(1);
  EXPECT_EQ(reported(links, outbox, now), (Reports{{7, group}}));
  put_tag(frame, length, 8);
  EXPECT_FALSE(links.receive_query(frame, now));
  links.leave(group);
  EXPECT_EQ(reported(links, outbox, now), (Reports{{0, group}, {7, group}}));
}

TEST(LinksThatReport, OthersAreSilent) {
  Links links({{.mac = {{2, 0, 0, 0, 0, 0x0A}}, .addresses = {{ip("2001:db8::1"), 64}}}});
  links.join(ip("239.1.2.3"));
  EXPECT_EQ(links.deadline(), kNever);
  EXPECT_FALSE(links.receive_query(testing::general_query(true, 1), Instant{1}));
}

}  // namespace
}  // namespace uroce::net
