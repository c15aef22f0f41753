#include "net/demux.h"

#include <gtest/gtest.h>

#include <vector>

#include "net/arp.h"
#include "net/derived_mac.h"
#include "net/neighbour_discovery.h"
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
  static Frame roce(MacAddress destination_mac, const Gid& destination, QpNumber number = {77}) {
    wire::Path path;
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
    EXPECT_EQ(result.reason, reason) << counter_label(result.reason);
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
