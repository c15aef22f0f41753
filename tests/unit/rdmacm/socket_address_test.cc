#include "rdmacm/socket_address.h"

#include <arpa/inet.h>
#include <endian.h>
#include <gtest/gtest.h>
#include <infiniband/ib.h>
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

TEST(SocketAddress, ZoneOfLinkScope_ExpectItAndOfOtherScopesNone) {
  const auto zone_of = [](const char* text) {
    sockaddr_storage room{};
    auto* const in6 = reinterpret_cast<sockaddr_in6*>(&room);
    in6->sin6_family = AF_INET6;
    in6->sin6_scope_id = 7;
    EXPECT_EQ(inet_pton(AF_INET6, text, &in6->sin6_addr), 1);
    const auto address = read_address(reinterpret_cast<sockaddr*>(&room));
    sockaddr_storage again;
    write_address(*address, again);
    EXPECT_EQ(reinterpret_cast<sockaddr_in6*>(&again)->sin6_scope_id, address->zone) << text;
    return address->zone;
  };
  for (const char* const text : {"fe80::1", "febf::1", "ff02::1", "ff01::1", "ff12::42"})
    EXPECT_EQ(zone_of(text), 7u) << text;
  for (const char* const text : {"fec0::1", "2001:db8::1", "::1", "::", "ff05::2", "ff0e::1"})
    EXPECT_EQ(zone_of(text), 0u) << text;
}

sockaddr_ib ib_address(uint64_t service, uint64_t mask) {
  sockaddr_ib ib{};
  ib.sib_family = AF_IB;
  ib.sib_pkey = htons(0x8001);
  ib.sib_flowinfo = htonl(0x12345);
  ib.sib_addr.sib_addr8[0] = 0xFD;
  ib.sib_addr.sib_addr8[15] = 9;
  ib.sib_sid = htobe64(service);
  ib.sib_sid_mask = htobe64(mask);
  ib.sib_scope_id = 1;
  return ib;
}

TEST(SocketAddress, OfAfIb_ExpectGidPortAndTheSameBytesBack) {
  const sockaddr_ib ib = ib_address(0x013F'1234, 0xFFFF);
  const auto address = read_address(reinterpret_cast<const sockaddr*>(&ib));
  ASSERT_TRUE(address.has_value());
  EXPECT_EQ(address->address.bytes[0], 0xFD);
  EXPECT_EQ(address->port, 0x1234);
  EXPECT_EQ(address->zone, 0u);
  sockaddr_storage again;
  write_address(*address, again);
  EXPECT_EQ(std::memcmp(&again, &ib, sizeof(ib)), 0);
}

TEST(SocketAddress, ServiceOfAfIb_ExpectThePortSpaceThatItNamesOrThatOfTheId) {
  using wire::PortSpace;
  const auto space = [](uint64_t service, uint64_t mask, rdma_port_space ps) {
    const sockaddr_ib ib = ib_address(service, mask);
    return port_space_of(read_address(reinterpret_cast<const sockaddr*>(&ib))->ib, ps);
  };
  constexpr uint64_t kPort = 0xFFFF;
  constexpr uint64_t kAll = UINT64_MAX;
  EXPECT_EQ(space(0, kPort, RDMA_PS_IB), PortSpace::kIb);
  EXPECT_EQ(space(0, kPort, RDMA_PS_TCP), PortSpace::kTcp);
  EXPECT_EQ(space(0, kPort, RDMA_PS_UDP), PortSpace::kUdp);
  EXPECT_EQ(space(0x0106'0000, kAll, RDMA_PS_IB), PortSpace::kTcp);
  EXPECT_EQ(space(0x0111'0000, kAll, RDMA_PS_IB), PortSpace::kUdp);
  EXPECT_EQ(space(0x013F'0000, kAll, RDMA_PS_TCP), std::nullopt);
  EXPECT_EQ(space(0x0111'0000, kAll, RDMA_PS_TCP), std::nullopt);
  EXPECT_EQ(space(0x0042'0000, kAll, RDMA_PS_IB), std::nullopt);
  EXPECT_EQ(space(0, kPort, RDMA_PS_IPOIB), std::nullopt);
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
  for (const int other : {AF_UNSPEC, AF_UNIX, AF_PACKET}) {
    const auto family = static_cast<sa_family_t>(other);
    room.ss_family = family;
    EXPECT_FALSE(read_address(reinterpret_cast<sockaddr*>(&room)).has_value());
    EXPECT_EQ(address_length(family), 0u);
  }
}

}  // namespace
}  // namespace uroce::rdmacm
