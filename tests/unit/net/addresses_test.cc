#include <gtest/gtest.h>

#include <vector>

#include "net/derived_mac.h"
#include "net/gid_table.h"
#include "net/prefix.h"
#include "wire/address_text.h"

namespace uroce::net {
namespace {

Gid ip(const char* text) { return wire::parse_ip(text).value(); }
MacAddress mac(const char* text) { return wire::parse_mac(text).value(); }

TEST(GidTable, IndexZeroIsTheLinkLocalOfTheMac) {
  const GidTable table(mac("52:54:00:12:34:56"), {});
  ASSERT_EQ(table.size(), 1u);
  EXPECT_EQ(table.at(0), ip("fe80::5054:ff:fe12:3456"));
}

TEST(GidTable, AddressesFollowInConfiguredOrder) {
  const std::vector<Gid> addresses = {ip("192.0.2.7"), ip("2001:db8::7"), ip("192.0.2.1")};
  const GidTable table(mac("02:00:c0:00:02:07"), addresses);
  ASSERT_EQ(table.size(), 4u);
  for (size_t i = 0; i < addresses.size(); ++i) {
    EXPECT_EQ(table.at(i + 1), addresses[i]);
    EXPECT_EQ(table.find(addresses[i]), i + 1);
    EXPECT_TRUE(table.owns(addresses[i]));
  }
  EXPECT_FALSE(table.owns(ip("192.0.2.2")));
  EXPECT_FALSE(table.owns(Gid{}));
  EXPECT_EQ(table.find(ip("::192.0.2.7")), std::nullopt) << "an IPv6 address with the same last bytes";
}

TEST(GidTable, TheLinkLocalOfTheMacAmongTheAddresses_ExpectItOnce) {
  const std::vector<Gid> addresses = {ip("192.0.2.7"), ip("fe80::c0ff:fe00:207"), ip("2001:db8::7")};
  const std::vector<uint16_t> vlans = {0, 0, 9};
  const GidTable table(mac("02:00:c0:00:02:07"), addresses, vlans);
  ASSERT_EQ(table.size(), 3u);
  EXPECT_EQ(table.find(addresses[1]), 0u);
  EXPECT_EQ(table.find(addresses[0]), 1u);
  EXPECT_EQ(table.find(addresses[2]), 2u);
  EXPECT_EQ(table.vlan_of(2), 9u);
}

TEST(GidTable, AnAddressKeepsItsIndexWhileOthersComeAndGo) {
  const std::vector<Gid> addresses = {ip("192.0.2.7"), ip("2001:db8::7"), ip("192.0.2.1")};
  GidTable table(mac("02:00:c0:00:02:07"), addresses);
  EXPECT_TRUE(table.remove(addresses[1]));
  EXPECT_EQ(table.size(), 4u);
  EXPECT_FALSE(table.in_use(2));
  EXPECT_FALSE(table.owns(addresses[1]));
  EXPECT_FALSE(table.owns(Gid{})) << "an empty index has no address";
  EXPECT_EQ(table.find(addresses[2]), 3u);
  EXPECT_FALSE(table.remove(addresses[1]));
  EXPECT_FALSE(table.remove(table.at(0))) << "the link-local one is the MAC's";

  EXPECT_EQ(table.add(ip("198.51.100.7"), 9), 2u);
  EXPECT_EQ(table.vlan_of(2), 9u);
  EXPECT_TRUE(table.has_vlans());
  EXPECT_EQ(table.add(ip("198.51.100.8"), 0), 4u);
  EXPECT_TRUE(table.remove(ip("198.51.100.7")));
  EXPECT_FALSE(table.has_vlan(9));
  EXPECT_FALSE(table.has_vlans());
  EXPECT_TRUE(table.remove(ip("198.51.100.8")));
  EXPECT_TRUE(table.remove(addresses[2]));
  EXPECT_EQ(table.size(), 2u) << "without empty ones at the end";
}

TEST(GidTable, IsFullAtSomeTime) {
  GidTable table(mac("02:00:00:00:00:01"), {});
  for (uint32_t i = 1; i < GidTable::kAddedMax; ++i) {
    ASSERT_EQ(table.add(Gid::from_ipv4({10, 0, static_cast<uint8_t>(i >> 8), static_cast<uint8_t>(i)}), 0),
              i);
  }
  EXPECT_EQ(table.add(ip("192.0.2.1"), 0), std::nullopt);
  EXPECT_TRUE(table.remove(ip("10.0.0.77")));
  EXPECT_EQ(table.add(ip("192.0.2.1"), 0), 77u);
}

TEST(GidTable, ManyAreFoundAsTheyComeAndGo) {
  GidTable table(mac("02:00:00:00:00:01"), {});
  const auto address = [](size_t i) {
    return Gid::from_ipv4({10, 0, static_cast<uint8_t>(i / 8), static_cast<uint8_t>(i % 8)});
  };
  for (size_t i = 1; i < GidTable::kAddedMax; ++i) ASSERT_EQ(table.add(address(i), 0), i);
  for (size_t i = 1; i < GidTable::kAddedMax; ++i) {
    EXPECT_EQ(table.find(address(i)), i);
    EXPECT_FALSE(table.owns(address(i + GidTable::kAddedMax)));
  }
  for (size_t i = 1; i < GidTable::kAddedMax; i += 3) ASSERT_TRUE(table.remove(address(i)));
  for (size_t i = 1; i < GidTable::kAddedMax; ++i) EXPECT_EQ(table.owns(address(i)), i % 3 != 1);
  EXPECT_EQ(table.add(address(1000), 0), 1u);
  EXPECT_EQ(table.find(address(1000)), 1u);
}

TEST(GidTable, EmptyOwnsNothing) {
  const GidTable table;
  EXPECT_EQ(table.size(), 0u);
  EXPECT_FALSE(table.owns(Gid{}));
}

TEST(GidTable, Eui64FlipsTheUniversalBit) {
  const std::array<uint8_t, 8> expected = {0x00, 0x11, 0x22, 0xFF, 0xFE, 0x33, 0x44, 0x55};
  EXPECT_EQ(eui64(mac("02:11:22:33:44:55")), expected);
}

TEST(DerivedMac, ShowsTheIpv4Address) { EXPECT_EQ(derived_mac(ip("10.1.2.3")), mac("02:00:0a:01:02:03")); }

TEST(DerivedMac, OfIpv6IsStableLocalAndDiffers) {
  const MacAddress one = derived_mac(ip("2001:db8::1"));
  EXPECT_EQ(one, derived_mac(ip("2001:db8::1")));
  EXPECT_NE(one, derived_mac(ip("2001:db8::2")));
  EXPECT_EQ(one.bytes[0], 0x02) << "locally administered, not a group";
  EXPECT_NE(one.bytes[1], 0x00) << "never the one of an IPv4 address";
}

TEST(MulticastMac, FollowsTheGroup) {
  EXPECT_EQ(multicast_mac(ip("ff02::1:ff12:3456")), mac("33:33:ff:12:34:56"));
  EXPECT_EQ(multicast_mac(ip("239.129.2.3")), mac("01:00:5e:01:02:03")) << "23 bits only";
}

TEST(Prefix, ContainsWhatSharesItsBits) {
  const Prefix v4{ip("10.1.2.3"), 20};
  EXPECT_TRUE(v4.contains(ip("10.1.0.1")));
  EXPECT_TRUE(v4.contains(ip("10.1.15.255")));
  EXPECT_FALSE(v4.contains(ip("10.1.16.0")));
  EXPECT_FALSE(v4.contains(ip("::a01:203"))) << "not IPv4";
  const Prefix v6{ip("2001:db8::1"), 65};
  EXPECT_TRUE(v6.contains(ip("2001:db8::7fff:ffff:ffff:ffff")));
  EXPECT_FALSE(v6.contains(ip("2001:db8::8000:0:0:0")));
}

TEST(Prefix, TheEndsOfTheRange) {
  EXPECT_TRUE((Prefix{ip("10.0.0.1"), 0}.contains(ip("203.0.113.9"))));
  EXPECT_FALSE((Prefix{ip("10.0.0.1"), 0}.contains(ip("2001:db8::1"))));
  EXPECT_TRUE((Prefix{ip("10.0.0.1"), 32}.contains(ip("10.0.0.1"))));
  EXPECT_FALSE((Prefix{ip("10.0.0.1"), 32}.contains(ip("10.0.0.0"))));
  EXPECT_TRUE((Prefix{ip("2001:db8::1"), 128}.contains(ip("2001:db8::1"))));
  EXPECT_FALSE((Prefix{ip("2001:db8::1"), 128}.contains(ip("2001:db8::"))));
}

}  // namespace
}  // namespace uroce::net
