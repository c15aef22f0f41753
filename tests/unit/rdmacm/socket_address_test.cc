#include "rdmacm/socket_address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstring>

namespace uroce::rdmacm {
namespace {

TEST(SocketAddress, Ipv4_ExpectAMappedGidAndTheSameBytesBack) {
  sockaddr_storage room{};
  auto* const in = reinterpret_cast<sockaddr_in*>(&room);
  in->sin_family = AF_INET;
  in->sin_port = htons(4420);
  ASSERT_EQ(inet_pton(AF_INET, "192.0.2.7", &in->sin_addr), 1);
  const auto address = read_address(reinterpret_cast<sockaddr*>(&room));
  ASSERT_TRUE(address.has_value());
  EXPECT_EQ(address->family, AF_INET);
  EXPECT_EQ(address->address, Gid::from_ipv4({192, 0, 2, 7}));
  EXPECT_EQ(address->port, 4420);
  EXPECT_FALSE(address->is_any());
  sockaddr_storage again;
  std::memset(&again, 0xFF, sizeof(again));
  write_address(*address, again);
  EXPECT_EQ(std::memcmp(&again, &room, sizeof(room)), 0);
}

TEST(SocketAddress, Ipv6_ExpectTheGidItself) {
  sockaddr_storage room{};
  auto* const in6 = reinterpret_cast<sockaddr_in6*>(&room);
  in6->sin6_family = AF_INET6;
  in6->sin6_port = htons(65535);
  ASSERT_EQ(inet_pton(AF_INET6, "fd00::1:2", &in6->sin6_addr), 1);
  const auto address = read_address(reinterpret_cast<sockaddr*>(&room));
  ASSERT_TRUE(address.has_value());
  EXPECT_EQ(address->address.bytes[0], 0xFD);
  EXPECT_EQ(address->address.bytes[15], 2);
  sockaddr_storage again;
  write_address(*address, again);
  EXPECT_EQ(std::memcmp(&again, &room, sizeof(room)), 0);
}

TEST(SocketAddress, Unspecified_ExpectAnyOfItsFamily) {
  sockaddr_storage room{};
  room.ss_family = AF_INET;
  EXPECT_TRUE(read_address(reinterpret_cast<sockaddr*>(&room))->is_any());
  room.ss_family = AF_INET6;
  EXPECT_TRUE(read_address(reinterpret_cast<sockaddr*>(&room))->is_any());
}

TEST(SocketAddress, OtherFamilies_ExpectNone) {
  sockaddr_storage room{};
  for (const int other : {AF_UNSPEC, AF_UNIX, AF_IB, AF_PACKET}) {
    const auto family = static_cast<sa_family_t>(other);
    room.ss_family = family;
    EXPECT_FALSE(read_address(reinterpret_cast<sockaddr*>(&room)).has_value());
    EXPECT_EQ(address_length(family), 0u);
  }
}

}  // namespace
}  // namespace uroce::rdmacm
