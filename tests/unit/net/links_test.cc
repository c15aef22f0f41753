// Two hosts with addresses in VLANs: each asks and answers with the tag of the link it is about.

#include "net/links.h"

#include <gtest/gtest.h>

#include <vector>

#include "outbox.h"
#include "wire/address_text.h"
#include "wire/big_endian.h"

namespace uroce::net {
namespace {

using Frame = std::vector<std::byte>;

Gid ip(const char* text) { return wire::parse_ip(text).value(); }

const MacAddress kMacA = wire::parse_mac("02:00:00:00:00:0a").value();
const MacAddress kMacB = wire::parse_mac("02:00:00:00:00:0b").value();

/// Untagged 192.0.2.x, in VLAN 7 203.0.113.x and 2001:db8:7::x, and another VLAN with 198.51.100.x.
std::vector<NeighbourOptions> options_of(MacAddress own, const std::string& last, uint16_t other_vlan) {
  return {{.mac = own, .addresses = {{ip(("192.0.2." + last).c_str()), 24}}},
          {.mac = own,
           .vlan = 7,
           .addresses = {{ip(("203.0.113." + last).c_str()), 24}, {ip(("2001:db8:7::" + last).c_str()), 64}}},
          {.mac = own, .vlan = other_vlan, .addresses = {{ip(("198.51.100." + last).c_str()), 24}}}};
}

struct Host {
  explicit Host(std::vector<NeighbourOptions> options) : links(std::move(options)) {}
  uroce::testing::Outbox outbox;
  Links links;
};

uint16_t tag_of(const Frame& frame) {
  return wire::load_be16(frame.data() + 12) == 0x8100 ? wire::load_be16(frame.data() + 14) : 0;
}

class TwoHostsInVlans : public ::testing::Test {
 protected:
  /// Asks for `address` in a VLAN; the tags of the question and of its answer, if there is one.
  std::vector<uint16_t> ask(const char* address, uint16_t vlan) {
    EXPECT_EQ(a.links.of(vlan).resolve(ip(address), now), Resolution::kAsking);
    EXPECT_LE(a.links.deadline(), now);
    a.links.pump(now, a.outbox.batch());
    std::vector<uint16_t> tags;
    for (const Frame& question : a.outbox.take()) {
      tags.push_back(tag_of(question));
      b.links.receive(question, now, b.outbox.batch());
      for (const Frame& answer : b.outbox.take()) {
        tags.push_back(tag_of(answer));
        EXPECT_TRUE(a.links.receive(answer, now, a.outbox.batch()));
      }
    }
    return tags;
  }

  Instant now{1'000'000};
  Host a{options_of(kMacA, "10", 8)};
  Host b{options_of(kMacB, "11", 9)};
};

TEST_F(TwoHostsInVlans, FindEachOtherInTheirVlan) {
  EXPECT_EQ(ask("192.0.2.11", 0), (std::vector<uint16_t>{0, 0}));
  EXPECT_EQ(ask("203.0.113.11", 7), (std::vector<uint16_t>{7, 7}));
  EXPECT_EQ(ask("2001:db8:7::11", 7), (std::vector<uint16_t>{7, 7}));
  EXPECT_EQ(a.links.of(7).lookup(ip("203.0.113.11"), now), kMacB);
  EXPECT_EQ(a.links.of(7).lookup(ip("2001:db8:7::11"), now), kMacB);
  EXPECT_EQ(a.links.of(0).lookup(ip("203.0.113.11"), now), std::nullopt) << "a link knows its own";
}

TEST_F(TwoHostsInVlans, DoNotHearEachOtherInAnother) {
  EXPECT_EQ(ask("198.51.100.11", 8), (std::vector<uint16_t>{8}));
  EXPECT_EQ(a.links.of(7).resolve(ip("198.51.100.11"), now), Resolution::kOffLink);
  EXPECT_EQ(a.links.of(0).resolve(ip("203.0.113.11"), now), Resolution::kOffLink);
}

TEST_F(TwoHostsInVlans, ATagThatHasOnlyAPriorityCountsAsNone) {
  ASSERT_EQ(a.links.of(0).resolve(ip("192.0.2.11"), now), Resolution::kAsking);
  a.links.pump(now, a.outbox.batch());
  Frame question = a.outbox.take().at(0);
  question.resize(question.size() + 4);
  std::copy_backward(question.begin() + 12, question.end() - 4, question.end());
  wire::store_be16(question.data() + 12, 0x8100);
  wire::store_be16(question.data() + 14, 6 << 13);
  EXPECT_TRUE(b.links.receive(question, now, b.outbox.batch()));
  EXPECT_EQ(b.outbox.take().size(), 1u);
}

TEST_F(TwoHostsInVlans, BrokenFramesAreNotAnswered) {
  const Frame tag_and_no_more = [] {
    Frame frame(16);
    wire::store_be16(frame.data() + 12, 0x8100);
    wire::store_be16(frame.data() + 14, 7);
    return frame;
  }();
  EXPECT_FALSE(b.links.receive(tag_and_no_more, now, b.outbox.batch()));
  Frame long_one(2000);
  wire::store_be16(long_one.data() + 12, 0x8100);
  wire::store_be16(long_one.data() + 14, 7);
  EXPECT_FALSE(b.links.receive(long_one, now, b.outbox.batch()));
  wire::store_be16(long_one.data() + 14, 8);
  EXPECT_FALSE(b.links.receive(long_one, now, b.outbox.batch()));
  EXPECT_TRUE(b.outbox.take().empty());
}

}  // namespace
}  // namespace uroce::net
