#include "wire/address_text.h"

#include <gtest/gtest.h>

namespace uroce::wire {
namespace {

TEST(AddressText, WritesAddressesAsPeopleDo) {
  EXPECT_EQ(to_text(Gid::from_ipv4({198, 51, 100, 1})), "198.51.100.1");
  EXPECT_EQ(to_text(Gid::from_ipv4({255, 255, 255, 255})), "255.255.255.255");
  Gid gid;
  EXPECT_EQ(to_text(gid), "::");
  gid.bytes = {0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFE, 0, 9, 1};
  EXPECT_EQ(to_text(gid), "fe80::ff:fe00:901");
  EXPECT_EQ(to_text(MacAddress{{0x02, 0, 0, 0, 0x09, 0xAB}}), "02:00:00:00:09:ab");
}

TEST(AddressText, ReadsBackWhatItWrites) {
  for (const char* text :
       {"0.0.0.0", "198.51.100.254", "::", "::1", "2001:db8::1", "fd00:9::2", "2001:db8:1:2:3:4:5:6"}) {
    const std::optional<Gid> gid = parse_ip(text);
    ASSERT_TRUE(gid) << text;
    EXPECT_EQ(to_text(*gid), text);
  }
  const std::optional<MacAddress> mac = parse_mac("02:00:5e:Ff:09:ab");
  ASSERT_TRUE(mac);
  EXPECT_EQ(to_text(*mac), "02:00:5e:ff:09:ab");
}

TEST(AddressText, TakesTheMappedFormAsTheIpv4AddressThatItIs) {
  EXPECT_EQ(parse_ip("::ffff:198.51.100.1"), Gid::from_ipv4({198, 51, 100, 1}));
}

TEST(AddressText, RefusesEverythingElse) {
  using namespace std::string_view_literals;
  for (const std::string_view text :
       {""sv, "198.51.100"sv, "198.51.100.256"sv, "198.51.100.1/24"sv, " 198.51.100.1"sv, "198.51.100.1 "sv,
        "198.51.100.1\0junk"sv, "fe80::1%eth0"sv, "2001:db8:::1"sv, "12345::"sv, "localhost"sv,
        "0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000"sv}) {
    EXPECT_FALSE(parse_ip(text)) << text;
  }
  for (const std::string_view text :
       {""sv, "02:00:00:00:09"sv, "02:00:00:00:09:01:02"sv, "02-00-00-00-09-01"sv, "02:00:00:00:09:0g"sv,
        "02:00:00:00:09: 1"sv, "02:00:00:00:09:-1"sv, "2:0:0:0:9:1"sv, "0x:00:00:00:09:01"sv,
        "02:00:00:00:09:01 "sv}) {
    EXPECT_FALSE(parse_mac(text)) << text;
  }
}

}  // namespace
}  // namespace uroce::wire
