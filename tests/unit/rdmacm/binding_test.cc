#include <arpa/inet.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "ends.h"

// Which addresses and ports an id can have, what wrong calls say, options, names.
namespace uroce::rdmacm_test {
namespace {

int bind(const Id& id, const char* address, uint16_t port = 0) {
  return error_of(rdma_bind_addr(id.get(), Address(address, port).get()));
}

class Binding : public ::testing::Test {
 protected:
  Channel channel;
};

TEST_F(Binding, PortOfAnother_ExpectEaddrinuse) {
  Id first(channel);
  EXPECT_EQ(bind(first, kServer), 0);
  EXPECT_NE(first.port(), 0);
  EXPECT_EQ(first->verbs->device->name, std::string("uroce1"));
  Id second(channel);
  EXPECT_EQ(bind(second, kServer, first.port()), EADDRINUSE);
  EXPECT_EQ(bind(second, "0.0.0.0", first.port()), EADDRINUSE);
  EXPECT_EQ(bind(second, kClient, first.port()), 0);
  Id datagrams(channel, RDMA_PS_UDP);
  EXPECT_EQ(bind(datagrams, kServer, first.port()), 0);  // another port space
  const uint16_t port = first.port();
  first.end();
  Id third(channel);
  EXPECT_EQ(bind(third, kServer, port), 0);
}

TEST_F(Binding, ManyThreadsBindOneId_ExpectOneToSucceed) {
  for (int round = 0; round < 20; ++round) {
    Id id(channel);
    std::atomic<int> bound = 0;
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] {
          const int error = bind(id, kServer);
          bound += error == 0 ? 1 : 0;
          EXPECT_TRUE(error == 0 || error == EINVAL) << error;
        });
    }
    EXPECT_EQ(bound, 1);
    const uint16_t port = id.port();
    id.end();
    Id next(channel);
    EXPECT_EQ(bind(next, kServer, port), 0);
  }
}

TEST_F(Binding, SharedPort_ExpectOneListener) {
  Id first(channel);
  Id second(channel);
  int yes = 1;
  for (const Id* const id : {&first, &second})
    must(rdma_set_option(id->get(), RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)));
  EXPECT_EQ(bind(first, kServer), 0);
  EXPECT_EQ(bind(second, kServer, first.port()), 0);
  EXPECT_EQ(error_of(rdma_listen(first.get(), 1)), EADDRINUSE);
  second.end();
  EXPECT_EQ(error_of(rdma_listen(first.get(), 1)), 0);
}

TEST_F(Binding, AllAddressesOfBothFamilies_ExpectOnePortOnlyWhenEachKeepsToItsOwn) {
  Id four(channel);
  EXPECT_EQ(bind(four, "0.0.0.0"), 0);
  EXPECT_EQ(four->verbs, nullptr);
  EXPECT_EQ(error_of(rdma_listen(four.get(), 1)), 0);
  Id six(channel);
  EXPECT_EQ(bind(six, "::", four.port()), EADDRINUSE);
  int yes = 1;
  must(rdma_set_option(six.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &yes, sizeof(yes)));
  EXPECT_EQ(bind(six, "::", four.port()), 0);
  EXPECT_EQ(error_of(rdma_listen(six.get(), 1)), 0);
  EXPECT_EQ(four.port(), six.port());
  EXPECT_EQ(four->route.addr.src_addr.sa_family, AF_INET);
  EXPECT_EQ(six->route.addr.src_addr.sa_family, AF_INET6);
}

TEST_F(Binding, AddressesThatAreNotOurs_ExpectTheErrno) {
  Id id(channel);
  EXPECT_EQ(bind(id, "192.0.2.77"), EADDRNOTAVAIL);
  sockaddr unknown{};
  unknown.sa_family = AF_UNIX;
  for (sockaddr* const none : {&unknown, static_cast<sockaddr*>(nullptr)}) {
    EXPECT_EQ(error_of(rdma_bind_addr(id.get(), none)), EINVAL);
    EXPECT_EQ(error_of(rdma_resolve_addr(id.get(), nullptr, none, 100)), EINVAL);
  }
  EXPECT_EQ(error_of(rdma_resolve_addr(id.get(), nullptr, Address("198.51.100.1").get(), 100)), ENETUNREACH);
  // It is bound now, and is no worse for it.
  must(rdma_resolve_addr(id.get(), nullptr, Address(kServer, 1).get(), 30'000));
  channel.take(RDMA_CM_EVENT_ADDR_RESOLVED);
}

TEST_F(Binding, NoHostHasTheAddress_ExpectAnErrorEvent) {
  Id id(channel);
  must(rdma_resolve_addr(id.get(), Address(kClient).get(), Address("192.0.2.77", 1).get(), 50));
  const Event event = channel.take(RDMA_CM_EVENT_ADDR_ERROR);
  EXPECT_LT(event->status, 0);
}

TEST_F(Binding, CallsInTheWrongState_ExpectEinval) {
  Id id(channel);
  EXPECT_EQ(error_of(rdma_resolve_route(id.get(), 100)), EINVAL);
  EXPECT_EQ(error_of(rdma_connect(id.get(), nullptr)), EINVAL);
  EXPECT_EQ(error_of(rdma_accept(id.get(), nullptr)), EINVAL);
  EXPECT_EQ(error_of(rdma_reject(id.get(), nullptr, 0)), EINVAL);
  EXPECT_EQ(error_of(rdma_establish(id.get())), EINVAL);
  EXPECT_EQ(error_of(rdma_notify(id.get(), IBV_EVENT_COMM_EST)), EINVAL);
  EXPECT_EQ(error_of(rdma_disconnect(id.get())), EINVAL);
  ibv_qp_init_attr wanted = queue_pair_of(IBV_QPT_RC);
  EXPECT_EQ(error_of(rdma_create_qp(id.get(), nullptr, &wanted)), EINVAL);
  ibv_qp_attr attributes{};
  int mask = 0;
  EXPECT_EQ(error_of(rdma_init_qp_attr(id.get(), &attributes, &mask)), EINVAL);
  EXPECT_EQ(bind(id, kServer), 0);
  EXPECT_EQ(bind(id, kServer), EINVAL);
  EXPECT_EQ(error_of(rdma_listen(id.get(), 1)), 0);
  EXPECT_EQ(error_of(rdma_listen(id.get(), 1)), EINVAL);
  EXPECT_EQ(error_of(rdma_resolve_addr(id.get(), nullptr, Address(kClient, 1).get(), 100)), EINVAL);
  EXPECT_EQ(error_of(rdma_connect(id.get(), nullptr)), EINVAL);
  EXPECT_EQ(error_of(rdma_ack_cm_event(nullptr)), EINVAL);
  rdma_cm_id* none = nullptr;
  EXPECT_EQ(error_of(rdma_create_id(channel.get(), &none, nullptr, static_cast<rdma_port_space>(0x42))),
            EPROTONOSUPPORT);
}

TEST_F(Binding, Options_ExpectTheirSizesAndValuesChecked) {
  const Id id(channel);
  const auto set = [&](int level, int name, auto value, size_t length) {
    return error_of(rdma_set_option(id.get(), level, name, &value, length));
  };
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, uint8_t{0x60}, 1), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, int{0x60}, 4), EINVAL);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, uint8_t{31}, 1), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, uint8_t{32}, 1), EINVAL);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, int{1}, 4), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, uint8_t{1}, 1), EINVAL);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, int{1}, 4), 0);
  EXPECT_EQ(bind(id, kServer), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, int{0}, 4), EINVAL);
  EXPECT_EQ(set(RDMA_OPTION_ID, 99, int{1}, 4), ENOSYS);
  EXPECT_EQ(set(99, RDMA_OPTION_ID_TOS, uint8_t{0}, 1), ENOSYS);
}

class TypeOfService : public Ends {};

TEST_F(TypeOfService, OfTheClient_ExpectItInTheQueuePairsPath) {
  listen();
  client = caller(client_channel, RDMA_PS_TCP, 0x60);
  make_queue_pair(client);
  must(rdma_connect(client.get(), nullptr));
  server = Id(server_channel.take(RDMA_CM_EVENT_CONNECT_REQUEST)->id);
  make_queue_pair(server);
  accept();
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ASSERT_EQ(ibv_query_qp(client->qp, &attributes, IBV_QP_AV, &initial), 0);
  EXPECT_EQ(attributes.ah_attr.grh.traffic_class, 0x60);
  EXPECT_EQ(client->route.path_rec->traffic_class, 0x60);
}

/// The network alone says CE: the class that a REQ names is the server's, without these bits.
TEST_F(TypeOfService, WithEcnBits_ExpectTheServerWithoutThem) {
  listen();
  client = caller(client_channel, RDMA_PS_TCP, 0x6B);
  make_queue_pair(client);
  must(rdma_connect(client.get(), nullptr));
  server = Id(server_channel.take(RDMA_CM_EVENT_CONNECT_REQUEST)->id);
  make_queue_pair(server);
  accept();
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ASSERT_EQ(ibv_query_qp(server->qp, &attributes, IBV_QP_AV, &initial), 0);
  EXPECT_EQ(attributes.ah_attr.grh.traffic_class, 0x68);
  EXPECT_EQ(server->route.path_rec->traffic_class, 0x68);
  EXPECT_EQ(server->route.path_rec->sl, 3);
}

// ---- 127.0.0.1 and ::1: this host.

std::string shown(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  const void* const bytes =
      address->sa_family == AF_INET
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr)
          : &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return inet_ntop(address->sa_family, bytes, text, sizeof text);
}

/// Where the server is bound, where the client goes, and from where if it says so.
struct Inside {
  const char* server;
  const char* to;
  const char* from;
  const char* client_shown;
};

class Loopback : public Ends, public ::testing::WithParamInterface<Inside> {};
INSTANTIATE_TEST_SUITE_P(Addresses, Loopback,
                         ::testing::Values(Inside{"127.0.0.1", "127.0.0.1", nullptr, "127.0.0.1"},
                                           Inside{"::1", "::1", nullptr, "::1"},
                                           Inside{"0.0.0.0", "127.0.0.1", nullptr, "127.0.0.1"},
                                           Inside{"::", "::1", nullptr, "::1"},
                                           Inside{"127.0.0.1", "127.0.0.1", kClient, kClient},
                                           Inside{"127.0.0.1", "0.0.0.0", nullptr, "127.0.0.1"},
                                           Inside{kServer, kServer, "127.0.0.1", "127.0.0.1"}));

TEST_P(Loopback, ConnectionInsideThisHost_ExpectTheAddressesThatWereSaidAndData) {
  const Inside& inside = GetParam();
  listener = Id(server_channel);
  must(rdma_bind_addr(listener.get(), Address(inside.server).get()));
  EXPECT_EQ(shown(rdma_get_local_addr(listener.get())), inside.server);
  // As that of all addresses: libfabric's servers without an address ask for "localhost", and take the id's
  // device, if it has one, for the only one that they are reached by.
  EXPECT_EQ(listener->verbs == nullptr, std::string(inside.server) != kServer);
  must(rdma_listen(listener.get(), 4));
  client = Id(client_channel);
  Address to(inside.to, listener.port());
  Address from(inside.from != nullptr ? inside.from : "127.0.0.1");
  must(rdma_resolve_addr(client.get(), inside.from != nullptr ? from.get() : nullptr, to.get(), 2000));
  client_channel.take(RDMA_CM_EVENT_ADDR_RESOLVED);
  must(rdma_resolve_route(client.get(), 2000));
  client_channel.take(RDMA_CM_EVENT_ROUTE_RESOLVED);
  EXPECT_EQ(shown(rdma_get_local_addr(client.get())), inside.client_shown);
  make_queue_pair(client);
  must(rdma_connect(client.get(), nullptr));
  server = Id(server_channel.take(RDMA_CM_EVENT_CONNECT_REQUEST)->id);
  EXPECT_EQ(shown(rdma_get_local_addr(server.get())), shown(rdma_get_peer_addr(client.get())));
  EXPECT_EQ(shown(rdma_get_peer_addr(server.get())), inside.client_shown);
  EXPECT_EQ(rdma_get_dst_port(server.get()), rdma_get_src_port(client.get()));
  make_queue_pair(server);
  accept();
  exchange_data(client, server);
}

TEST_F(Binding, LoopbackAndADevicesAddress_ExpectThemToBeTwo) {
  const Id inside(channel);
  const Id outside(channel);
  EXPECT_EQ(bind(inside, "127.0.0.1"), 0);
  EXPECT_EQ(bind(outside, kServer, inside.port()), 0);
  const Id again(channel);
  EXPECT_EQ(bind(again, "127.0.0.1", inside.port()), EADDRINUSE);
  // From there no way leads to another host.
  EXPECT_EQ(error_of(rdma_resolve_addr(inside.get(), nullptr, Address("192.0.2.77", 1).get(), 100)),
            ENETUNREACH);
}

/// The link-local addresses that every device has.
class Ipv6 : public Ends {
 protected:
  Ipv6() : Ends("fe80::ff:fe00:2", "fe80::ff:fe00:1") {}
};

TEST_F(Ipv6, Connection_ExpectAddressesAndBytes) {
  connect();
  EXPECT_EQ(server->route.addr.dst_addr.sa_family, AF_INET6);
  EXPECT_EQ(std::memcmp(&server->route.addr.dst_sin6.sin6_addr, &client->route.addr.src_sin6.sin6_addr, 16),
            0);
  exchange_data(client, server);
  EXPECT_EQ(rdma_disconnect(client.get()), 0);
  server_channel.take(RDMA_CM_EVENT_DISCONNECTED);
}

TEST(Names, Numeric_ExpectTheAddressOnTheAskedSide) {
  rdma_addrinfo hints{};
  rdma_addrinfo* found = nullptr;
  hints.ai_flags = RAI_NUMERICHOST;
  hints.ai_port_space = RDMA_PS_TCP;
  ASSERT_EQ(rdma_getaddrinfo(kServer, "7471", &hints, &found), 0);
  EXPECT_EQ(found->ai_family, AF_INET);
  EXPECT_EQ(found->ai_qp_type, IBV_QPT_RC);
  EXPECT_EQ(found->ai_src_addr, nullptr);
  ASSERT_NE(found->ai_dst_addr, nullptr);
  EXPECT_EQ(std::memcmp(found->ai_dst_addr, Address(kServer, 7471).get(), sizeof(sockaddr_in)), 0);
  rdma_freeaddrinfo(found);

  hints.ai_flags = RAI_PASSIVE;
  hints.ai_port_space = RDMA_PS_UDP;
  ASSERT_EQ(rdma_getaddrinfo(kServer, "7471", &hints, &found), 0);
  EXPECT_EQ(found->ai_qp_type, IBV_QPT_UD);
  EXPECT_EQ(found->ai_dst_addr, nullptr);
  EXPECT_NE(found->ai_src_addr, nullptr);
  rdma_freeaddrinfo(found);
}

TEST(Names, WrongQuestions_ExpectAnError) {
  rdma_addrinfo hints{};
  rdma_addrinfo* found = nullptr;
  hints.ai_flags = 0x1000;
  EXPECT_NE(rdma_getaddrinfo(kServer, "1", &hints, &found), 0);
  hints.ai_flags = RAI_NUMERICHOST;
  EXPECT_NE(rdma_getaddrinfo("no.number", "1", &hints, &found), 0);
  hints.ai_port_space = RDMA_PS_TCP;
  hints.ai_qp_type = IBV_QPT_UD;
  EXPECT_NE(rdma_getaddrinfo(kServer, "1", &hints, &found), 0);
  EXPECT_NE(rdma_getaddrinfo(nullptr, nullptr, nullptr, &found), 0);
}

TEST(Names, Events_ExpectThoseOfTheManual) {
  EXPECT_STREQ(rdma_event_str(RDMA_CM_EVENT_ADDR_RESOLVED), "RDMA_CM_EVENT_ADDR_RESOLVED");
  EXPECT_STREQ(rdma_event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT), "RDMA_CM_EVENT_TIMEWAIT_EXIT");
}

TEST(Devices, List_ExpectTheContextsOfIds) {
  int count = 0;
  ibv_context** const devices = rdma_get_devices(&count);
  ASSERT_NE(devices, nullptr);
  ASSERT_EQ(count, 2);
  EXPECT_EQ(devices[2], nullptr);
  const Channel channel;
  const Id id(channel);
  EXPECT_EQ(bind(id, kServer), 0);
  EXPECT_EQ(id->verbs, devices[1]);
  EXPECT_NE(id->pd, nullptr);
  rdma_free_devices(devices);
}

}  // namespace
}  // namespace uroce::rdmacm_test
