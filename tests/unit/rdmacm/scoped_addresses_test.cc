#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/ib.h>

#include <cerrno>
#include <cstring>

#include "ends.h"

// Addresses that say more than an IP address: link-local ones with a zone, and those of AF_IB.
namespace uroce::rdmacm_test {
namespace {

constexpr const char* kServerLink = "fe80::ff:fe00:2";
constexpr const char* kClientLink = "fe80::ff:fe00:1";
constexpr uint32_t kLoopbackZone = 1;  // of devices that go through no interface of the kernel
constexpr uint32_t kNoZone = 0x7FFF0000;

/// With a zone.
struct Zoned {
  Zoned(const char* text, uint32_t zone, uint16_t port = 0) : address(text, port) {
    reinterpret_cast<sockaddr_in6*>(address.get())->sin6_scope_id = zone;
  }
  sockaddr* get() { return address.get(); }
  Address address;
};

uint32_t zone_of(const sockaddr* address) {
  return reinterpret_cast<const sockaddr_in6*>(address)->sin6_scope_id;
}

class Zones : public Ends {
 protected:
  Zones() : Ends(kServerLink, kClientLink) {}
};

TEST_F(Zones, Bound_ExpectTheOneOfTheGid) {
  for (const uint32_t zone : {0u, kLoopbackZone}) {
    const Id id(client_channel);
    must(rdma_bind_addr(id.get(), Zoned(kServerLink, zone).get()));
    EXPECT_EQ(id->verbs->device->name, std::string("uroce1"));
    ibv_gid_entry entry{};
    ASSERT_EQ(ibv_query_gid_ex(id->verbs, 1, 0, &entry, 0), 0);
    EXPECT_EQ(entry.ndev_ifindex, kLoopbackZone);
    EXPECT_EQ(zone_of(rdma_get_local_addr(id.get())), kLoopbackZone);
  }
}

TEST_F(Zones, WithoutADevice_ExpectEnodev) {
  const Id bound(client_channel);
  EXPECT_EQ(error_of(rdma_bind_addr(bound.get(), Zoned(kServerLink, kNoZone).get())), ENODEV);
  const Id resolved(client_channel);
  EXPECT_EQ(error_of(rdma_resolve_addr(resolved.get(), nullptr, Zoned(kServerLink, kNoZone, 1).get(), 1000)),
            ENODEV);
}

TEST_F(Zones, OfAnotherLinkThanTheBoundOne_ExpectEinval) {
  const Id id(client_channel);
  must(rdma_bind_addr(id.get(), Zoned(kClientLink, kLoopbackZone).get()));
  EXPECT_EQ(error_of(rdma_resolve_addr(id.get(), nullptr, Zoned(kServerLink, kNoZone, 1).get(), 1000)),
            EINVAL);
  must(rdma_resolve_addr(id.get(), nullptr, Zoned(kServerLink, kLoopbackZone, 1).get(), 30'000));
  client_channel.take(RDMA_CM_EVENT_ADDR_RESOLVED);
}

TEST_F(Zones, OfGroups_ExpectTheDevicesOnly) {
  const Id id(client_channel, RDMA_PS_UDP);
  must(rdma_bind_addr(id.get(), Zoned(kClientLink, 0).get()));
  Zoned elsewhere("ff02::4711", kNoZone);
  EXPECT_EQ(error_of(rdma_join_multicast(id.get(), elsewhere.get(), nullptr)), EINVAL);
  EXPECT_EQ(error_of(rdma_leave_multicast(id.get(), elsewhere.get())), EADDRNOTAVAIL);
  Zoned here("ff02::4711", kLoopbackZone);
  must(rdma_join_multicast(id.get(), here.get(), nullptr));
  client_channel.take(RDMA_CM_EVENT_MULTICAST_JOIN);
  must(rdma_leave_multicast(id.get(), here.get()));
}

TEST_F(Zones, OfBothEndsOfAConnection_ExpectThemSaid) {
  connect();
  for (const Id* const id : {&client, &server}) {
    EXPECT_EQ(zone_of(rdma_get_local_addr(id->get())), kLoopbackZone);
    EXPECT_EQ(zone_of(rdma_get_peer_addr(id->get())), kLoopbackZone);
  }
}

// ---- AF_IB.

sockaddr_ib ib_address(const char* gid, uint16_t port, uint16_t partition_key = 0xFFFF) {
  sockaddr_ib ib{};
  ib.sib_family = AF_IB;
  ib.sib_pkey = htons(partition_key);
  EXPECT_EQ(inet_pton(AF_INET6, gid, &ib.sib_addr), 1);
  ib.sib_sid = htobe64(port);
  ib.sib_sid_mask = htobe64(0xFFFF);
  ib.sib_scope_id = 1;  // libfabric says its port there
  return ib;
}

sockaddr* face(sockaddr_ib& address) { return reinterpret_cast<sockaddr*>(&address); }

sockaddr_ib shown(const sockaddr* address) {
  sockaddr_ib ib;
  std::memcpy(&ib, address, sizeof ib);
  return ib;
}

class Gids : public Ends {
 protected:
  sockaddr_ib at_server_gid = ib_address("::ffff:192.0.2.2", 0);
};

TEST_F(Gids, Bound_ExpectTheDeviceAndAServiceWithAPort) {
  const Id id(server_channel, RDMA_PS_IB);
  must(rdma_bind_addr(id.get(), face(at_server_gid)));
  EXPECT_EQ(id->verbs->device->name, std::string("uroce1"));
  EXPECT_NE(id.port(), 0);
  const sockaddr_ib local = shown(rdma_get_local_addr(id.get()));
  EXPECT_EQ(local.sib_family, AF_IB);
  EXPECT_EQ(be64toh(local.sib_sid), uint64_t{RDMA_PS_IB} << 16 | id.port());
  EXPECT_EQ(local.sib_sid_mask, UINT64_MAX);
  EXPECT_EQ(local.sib_scope_id, 1u);
  EXPECT_EQ(std::memcmp(&local.sib_addr, &at_server_gid.sib_addr, sizeof local.sib_addr), 0);
  // The ports of a space are those of sockets as well.
  const Id other(server_channel, RDMA_PS_IB);
  EXPECT_EQ(error_of(rdma_bind_addr(other.get(), Address(kServer, id.port()).get())), EADDRINUSE);
}

TEST_F(Gids, NotOurs_ExpectTheErrno) {
  const Id id(server_channel, RDMA_PS_TCP);
  sockaddr_ib elsewhere = ib_address("::ffff:192.0.2.77", 0);
  EXPECT_EQ(error_of(rdma_bind_addr(id.get(), face(elsewhere))), ENODEV);
  at_server_gid.sib_sid = htobe64(uint64_t{RDMA_PS_UDP} << 16);
  at_server_gid.sib_sid_mask = UINT64_MAX;
  EXPECT_EQ(error_of(rdma_bind_addr(id.get(), face(at_server_gid))), EPROTONOSUPPORT);
  sockaddr_ib other_partition = ib_address("::ffff:192.0.2.2", 1, 0x1234);
  EXPECT_EQ(error_of(rdma_resolve_addr(id.get(), nullptr, face(other_partition), 1000)), ENODEV);
  const Id by_ip(server_channel, RDMA_PS_TCP);
  must(rdma_bind_addr(by_ip.get(), Address(kClient).get()));
  EXPECT_EQ(error_of(rdma_resolve_addr(by_ip.get(), nullptr, face(at_server_gid), 1000)), EINVAL);
}

TEST_F(Gids, Connection_ExpectTheWholePrivateDataAndBytes) {
  for (const bool everywhere : {false, true}) {
    SCOPED_TRACE(everywhere);
    sockaddr_ib bound = everywhere ? ib_address("::", 0) : at_server_gid;
    listener = Id(server_channel, RDMA_PS_IB);
    must(rdma_bind_addr(listener.get(), face(bound)));
    must(rdma_listen(listener.get(), 4));
    client = Id(client_channel, RDMA_PS_IB);
    sockaddr_ib to = at_server_gid;
    to.sib_sid = shown(rdma_get_local_addr(listener.get())).sib_sid;
    sockaddr_ib from = ib_address("::ffff:192.0.2.1", 0);
    must(rdma_resolve_addr(client.get(), face(from), face(to), 30'000));
    client_channel.take(RDMA_CM_EVENT_ADDR_RESOLVED);
    must(rdma_resolve_route(client.get(), 30'000));
    client_channel.take(RDMA_CM_EVENT_ROUTE_RESOLVED);
    make_queue_pair(client);
    std::vector<uint8_t> question(92);  // all that a REQ has room for
    for (size_t i = 0; i < question.size(); ++i) question[i] = static_cast<uint8_t>(i);
    rdma_conn_param param{};
    param.private_data = question.data();
    param.private_data_len = static_cast<uint8_t>(question.size());
    must(rdma_connect(client.get(), &param));
    {
      const Event asked = server_channel.take(RDMA_CM_EVENT_CONNECT_REQUEST);
      const auto data = private_data_of(*asked);
      EXPECT_EQ(std::vector<uint8_t>(data.begin(), data.end()), question);
      server = Id(asked->id);
    }
    const sockaddr_ib local = shown(rdma_get_local_addr(server.get()));
    EXPECT_EQ(local.sib_family, AF_IB);
    EXPECT_EQ(local.sib_sid, to.sib_sid);
    EXPECT_EQ(std::memcmp(&local.sib_addr, &to.sib_addr, sizeof local.sib_addr), 0);
    const sockaddr_ib peer = shown(rdma_get_peer_addr(server.get()));
    EXPECT_EQ(peer.sib_family, AF_IB);
    EXPECT_EQ(std::memcmp(&peer.sib_addr, &from.sib_addr, sizeof peer.sib_addr), 0);
    make_queue_pair(server);
    accept();
    exchange_data(client, server);
    client.end();
    server.end();
    listener.end();
  }
}

}  // namespace
}  // namespace uroce::rdmacm_test
