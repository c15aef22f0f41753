#include <rdma/rdma_verbs.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "ends.h"

// Ends of connections, of ids at every stage of their life, and of channels.
namespace uroce::rdmacm_test {
namespace {

using Leaving = Ends;

TEST_F(Leaving, ClientHangsUp_ExpectBothTold) {
  connect();
  EXPECT_EQ(rdma_disconnect(client.get()), 0);
  EXPECT_EQ(client.qp_state(), IBV_QPS_ERR);
  EXPECT_EQ(server_channel.take(RDMA_CM_EVENT_DISCONNECTED)->id, server.get());
  EXPECT_EQ(client_channel.take(RDMA_CM_EVENT_DISCONNECTED)->id, client.get());
  EXPECT_EQ(rdma_disconnect(server.get()), 0);
  EXPECT_EQ(server.qp_state(), IBV_QPS_ERR);
}

TEST_F(Leaving, AgainAfterItIsOver_ExpectItDone) {
  connect();
  EXPECT_EQ(rdma_disconnect(client.get()), 0);
  server_channel.take(RDMA_CM_EVENT_DISCONNECTED);
  server_channel.take(RDMA_CM_EVENT_TIMEWAIT_EXIT);
  EXPECT_EQ(rdma_disconnect(server.get()), 0);
  client_channel.take(RDMA_CM_EVENT_DISCONNECTED);
  client_channel.take(RDMA_CM_EVENT_TIMEWAIT_EXIT);
  EXPECT_EQ(rdma_disconnect(client.get()), 0);
  EXPECT_FALSE(client_channel.readable());
}

TEST_F(Leaving, ServerHangsUp_ExpectBothTold) {
  connect(IBV_QPT_UC);
  EXPECT_EQ(rdma_disconnect(server.get()), 0);
  EXPECT_EQ(client_channel.take(RDMA_CM_EVENT_DISCONNECTED)->id, client.get());
  EXPECT_EQ(server_channel.take(RDMA_CM_EVENT_DISCONNECTED)->id, server.get());
}

TEST_F(Leaving, BothHangUpAtOnce_ExpectEachToldOnce) {
  connect();
  std::thread other([&] { EXPECT_EQ(rdma_disconnect(server.get()), 0); });
  EXPECT_EQ(rdma_disconnect(client.get()), 0);
  other.join();
  EXPECT_EQ(client_channel.take(RDMA_CM_EVENT_DISCONNECTED)->id, client.get());
  EXPECT_EQ(server_channel.take(RDMA_CM_EVENT_DISCONNECTED)->id, server.get());
}

TEST_F(Leaving, WorkUnderWay_ExpectItFlushed) {
  connect();
  std::vector<uint8_t> room(64);
  ibv_mr* const region = rdma_reg_msgs(server.get(), room.data(), room.size());
  ASSERT_NE(region, nullptr);
  must(rdma_post_recv(server.get(), nullptr, room.data(), room.size(), region));
  EXPECT_EQ(rdma_disconnect(server.get()), 0);
  ibv_wc completion{};
  EXPECT_EQ(rdma_get_recv_comp(server.get(), &completion), 1);
  EXPECT_EQ(completion.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(ibv_dereg_mr(region), 0);
}

TEST_F(Leaving, ServerIsDestroyed_ExpectTheClientTold) {
  connect();
  server.end();
  EXPECT_EQ(client_channel.take(RDMA_CM_EVENT_DISCONNECTED)->id, client.get());
}

/// The client's id is destroyed after so many steps; nothing is left of it that could be read, and the next
/// client is served.
TEST_F(Leaving, ClientDestroyedAtEveryStage_ExpectNoEventOfItAndLifeAfterIt) {
  for (int steps = 0; steps < 8; ++steps) {
    SCOPED_TRACE(steps);
    listen();
    client = Id(client_channel);
    auto step = [&, at = 0](auto call) mutable {
      if (at++ < steps) call();
    };
    step([&] {
      must(rdma_resolve_addr(client.get(), Address(at_client).get(),
                             Address(at_server, listener.port()).get(), 30'000));
    });
    step([&] { client_channel.take(RDMA_CM_EVENT_ADDR_RESOLVED); });
    step([&] { must(rdma_resolve_route(client.get(), 30'000)); });
    step([&] { client_channel.take(RDMA_CM_EVENT_ROUTE_RESOLVED); });
    step([&] {
      make_queue_pair(client);
      must(rdma_connect(client.get(), nullptr));
    });
    step([&] { server = Id(server_channel.take(RDMA_CM_EVENT_CONNECT_REQUEST)->id); });
    step([&] {
      make_queue_pair(server);
      must(rdma_accept(server.get(), nullptr));
      EXPECT_TRUE(client_channel.readable(60'000));
    });
    client.end();
    EXPECT_FALSE(client_channel.readable());
    server.end();
    listener.end();
    EXPECT_FALSE(server_channel.readable());
    connect();
    exchange_data(client, server);
    client.end();
    server.end();
  }
}

/// rdma_destroy_id(3) waits until what it told is acknowledged.
TEST_F(Leaving, EventIsHeldByAnotherThread_ExpectDestructionToWaitForIt) {
  listen();
  client = Id(client_channel);
  must(rdma_resolve_addr(client.get(), Address(at_client).get(), Address(at_server, listener.port()).get(),
                         30'000));
  Event held = client_channel.take(RDMA_CM_EVENT_ADDR_RESOLVED);
  std::atomic<bool> acknowledged = false;
  std::thread holder([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    acknowledged = true;
    held.reset();
  });
  client.end();
  EXPECT_TRUE(acknowledged);
  holder.join();
}

}  // namespace
}  // namespace uroce::rdmacm_test
