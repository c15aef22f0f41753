#include "net/demux.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/counters/counter_texts.h"
#include "membership_messages.h"
#include "net/arp.h"
#include "net/derived_mac.h"
#include "net/neighbour_discovery.h"
#include "net/vlan_tag.h"
#include "wire/address_text.h"
#include "wire/frame.h"

namespace uroce::net {
namespace {

using Frame = std::vector<std::byte>;

Gid ip(const char* text) { return wire::parse_ip(text).value(); }
MacAddress mac(const char* text) { return wire::parse_mac(text).value(); }

class DemuxTest : public ::testing::Test {
 protected:
  /// A SEND Only with eight bytes.
  static Frame roce(MacAddress destination_mac, const Gid& destination, QpNumber number = {77},
                    std::optional<uint16_t> tag = {}, uint16_t source_port = 0xC000) {
    wire::Path path;
    path.has_vlan = tag.has_value();
    path.vlan_tci = tag.value_or(0);
    path.udp_source_port = source_port;
    path.source_mac = mac("02:00:00:00:00:0b");
    path.destination_mac = destination_mac;
    path.source = destination.is_ipv4() ? ip("192.0.2.11") : ip("2001:db8::11");
    path.destination = destination;
    const wire::FrameTemplate headers_before(path);
    wire::Headers headers;
    headers.bth.opcode = wire::Opcode::make(wire::Service::kRc, wire::Operation::kSendOnly);
    headers.bth.destination = number;
    Frame frame(256);
    wire::write_headers(frame, headers_before, headers, 8);
    frame.resize(wire::finish_frame(frame, headers_before, headers.bth.opcode, 8));
    return frame;
  }

  Classified classified(const Frame& frame) { return demux_.classify(frame, packet_); }
  void expect_dropped(const Frame& frame, Counter reason) {
    const Classified result = classified(frame);
    EXPECT_EQ(result.kind, FrameKind::kDropped);
    EXPECT_EQ(result.reason, reason) << texts_of(result.reason).label;
  }

  const MacAddress ours_ = mac("02:00:00:00:00:0a");
  const std::vector<Gid> addresses_ = {ip("192.0.2.10"), ip("2001:db8::10")};
  const GidTable gids_{ours_, addresses_};
  const Demux demux_{ours_, gids_};
  wire::Packet packet_;
};

TEST_F(DemuxTest, RoceToEachOfOurAddressesIsForUs) {
  for (size_t i = 0; i < gids_.size(); ++i) {
    EXPECT_EQ(classified(roce(ours_, gids_.at(i))).kind, FrameKind::kRoce) << i;
    EXPECT_EQ(packet_.headers.bth.destination, QpNumber{77});
    EXPECT_EQ(packet_.destination, gids_.at(i));
  }
}

TEST_F(DemuxTest, QueriesAboutGroupsComeToAGroupOrToUs) {
  for (Frame frame : {testing::general_query(true, 10), testing::general_query(false, 1000)}) {
    EXPECT_EQ(classified(frame).kind, FrameKind::kQuery);
    std::copy(ours_.bytes.begin(), ours_.bytes.end(), reinterpret_cast<uint8_t*>(frame.data()));
    EXPECT_EQ(classified(frame).kind, FrameKind::kQuery);
    frame[5] = std::byte{0x0C};
    expect_dropped(frame, Counter::kDropNotOurAddress);
  }
}

TEST_F(DemuxTest, AnotherMacOrAddressIsNotForUs) {
  expect_dropped(roce(mac("02:00:00:00:00:0c"), addresses_[0]), Counter::kDropNotOurAddress);
  expect_dropped(roce(ours_, ip("192.0.2.12")), Counter::kDropNotOurAddress);
  expect_dropped(roce(mac("ff:ff:ff:ff:ff:ff"), addresses_[0]), Counter::kDropNotOurAddress);
}

TEST_F(DemuxTest, WhatIsForAGroupHasItsMacAndTheNumberOfMembers) {
  for (const char* text : {"239.1.2.3", "ff0e::1:2"}) {
    const Gid group = ip(text);
    EXPECT_EQ(classified(roce(multicast_mac(group), group, Demux::kMembers)).kind, FrameKind::kGroup);
    expect_dropped(roce(multicast_mac(group), group), Counter::kDropNotOurAddress);
    expect_dropped(roce(ours_, group, Demux::kMembers), Counter::kDropNotOurAddress);
    expect_dropped(roce(mac("01:00:5e:00:00:01"), group, Demux::kMembers), Counter::kDropNotOurAddress);
  }
}

TEST_F(DemuxTest, AnySourcePortWillDo) {
  for (const int each : {0, 1, 4791, 0xBFFF, 0xC000, 0xFFFF}) {
    const auto port = static_cast<uint16_t>(each);
    EXPECT_EQ(classified(roce(ours_, addresses_[0], {77}, {}, port)).kind, FrameKind::kRoce) << port;
    EXPECT_EQ(packet_.udp_source_port, port);
  }
}

TEST_F(DemuxTest, AnAddressIsHeardInItsVlanOnly) {
  constexpr uint16_t kPriority = 5 << 13;
  const std::vector<Gid> addresses = {ip("192.0.2.10"), ip("203.0.113.10"), ip("2001:db8:9::10")};
  const std::vector<uint16_t> vlans = {0, 7, 9};
  const GidTable gids(ours_, addresses, vlans);
  const Demux demux(ours_, gids);
  const auto expect = [&](const Gid& to, std::optional<uint16_t> tag, std::optional<Counter> reason) {
    const Classified result = demux.classify(roce(ours_, to, {77}, tag), packet_);
    EXPECT_EQ(result.kind, reason ? FrameKind::kDropped : FrameKind::kRoce) << tag.value_or(0xFFFF);
    if (reason) {
      EXPECT_EQ(result.reason, *reason) << texts_of(result.reason).label;
    }
  };
  expect(addresses[0], std::nullopt, std::nullopt);
  expect(addresses[0], kPriority, std::nullopt);  // a priority, and no VLAN
  expect(addresses[0], 7, Counter::kDropVlan);
  expect(addresses[1], 7, std::nullopt);
  expect(addresses[1], kPriority | 7, std::nullopt);
  expect(addresses[1], 0x1000 | 7, std::nullopt);  // may be discarded where it is narrow
  expect(addresses[1], std::nullopt, Counter::kDropVlan);
  expect(addresses[1], kPriority, Counter::kDropVlan);
  expect(addresses[1], 9, Counter::kDropVlan);
  expect(addresses[1], 10, Counter::kDropVlan);
  expect(addresses[2], 9, std::nullopt);
  expect(gids.at(0), std::nullopt, std::nullopt);
  expect(gids.at(0), 7, Counter::kDropVlan);
  expect(ip("203.0.113.99"), 7, Counter::kDropNotOurAddress);

  const Gid group = ip("239.1.2.3");
  const auto to_group = [&](uint16_t tag) {
    return demux.classify(roce(multicast_mac(group), group, Demux::kMembers, tag), packet_);
  };
  EXPECT_EQ(to_group(7).kind, FrameKind::kGroup);
  EXPECT_EQ(to_group(8).reason, Counter::kDropVlan);

  Frame arp(kArpFrameBytes + wire::kVlanTagBytes);
  write_arp(arp, {.sender = ip("203.0.113.11"), .target = addresses[1]}, mac("ff:ff:ff:ff:ff:ff"));
  put_tag(arp, kArpFrameBytes, 7);
  EXPECT_EQ(demux.classify(arp, packet_).kind, FrameKind::kNeighbour);
  arp[15] = std::byte{8};
  EXPECT_EQ(demux.classify(arp, packet_).reason, Counter::kDropVlan);
}

TEST_F(DemuxTest, BrokenRoceIsCountedByItsReason) {
  Frame frame = roce(ours_, addresses_[0]);
  frame[14 + 10] ^= std::byte{1};
  expect_dropped(frame, Counter::kDropIpChecksum);
  expect_dropped(Frame(13), Counter::kDropTruncated);
}

TEST_F(DemuxTest, ArpAndDiscoveryGoToTheNeighbours) {
  Frame arp(kArpFrameBytes);
  write_arp(arp, {.sender = ip("192.0.2.11"), .target = addresses_[0]}, mac("ff:ff:ff:ff:ff:ff"));
  EXPECT_EQ(classified(arp).kind, FrameKind::kNeighbour);

  Frame discovery(kDiscoveryFrameBytes);
  DiscoveryMessage message{.destination_mac = multicast_mac(solicited_node(addresses_[1])),
                           .source = ip("2001:db8::11"),
                           .destination = solicited_node(addresses_[1]),
                           .target = addresses_[1],
                           .link_address = mac("02:00:00:00:00:0b")};
  write_discovery(discovery, message);
  EXPECT_EQ(classified(discovery).kind, FrameKind::kNeighbour);

  message.destination_mac = mac("02:00:00:00:00:0c");
  write_discovery(discovery, message);
  expect_dropped(discovery, Counter::kDropNotOurAddress);
}

TEST_F(DemuxTest, EverythingElseIsNotRoce) {
  Frame frame(60);
  frame[12] = std::byte{0x88};
  frame[13] = std::byte{0xCC};
  expect_dropped(frame, Counter::kRxNotRoce);
}

}  // namespace
}  // namespace uroce::net
