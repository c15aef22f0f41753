#include <algorithm>
#include <cerrno>

#include "ends.h"

// Connections from the request to the first byte, or to the refusal.
namespace uroce::rdmacm_test {
namespace {

constexpr int kConsumerRejects = 28;
constexpr int kInvalidServiceId = 8;

std::vector<uint8_t> bytes_of(const rdma_cm_event& event) {
  const auto data = private_data_of(event);
  return {data.begin(), data.end()};
}

rdma_conn_param with_data(const std::vector<uint8_t>& data) {
  rdma_conn_param param{};
  param.private_data = data.data();
  param.private_data_len = static_cast<uint8_t>(data.size());
  param.retry_count = 7;
  param.rnr_retry_count = 7;
  return param;
}

using Connecting = Ends;

TEST_F(Connecting, ReliableAndUnreliable_ExpectPrivateDataBothWaysAndBytesAfterIt) {
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
    SCOPED_TRACE(type);
    listen();
    const std::vector<uint8_t> question = counting(20);
    const std::vector<uint8_t> answer = counting(196);
    const rdma_conn_param asking = with_data(question);
    {
      const Event request_event = request(type, &asking);
      EXPECT_EQ(request_event->listen_id, listener.get());
      EXPECT_EQ(request_event->status, 0);
      // Whatever was given, a message has all its room; the rest of it is zero.
      EXPECT_EQ(bytes_of(*request_event), counting(20, 56));
      EXPECT_EQ(request_event->param.conn.qp_num, client->qp->qp_num);
    }
    EXPECT_EQ(server->qp_type, type);
    const rdma_conn_param answering = with_data(answer);
    {
      const Event established = accept(&answering);
      EXPECT_EQ(established->id, client.get());
      EXPECT_EQ(bytes_of(*established), counting(196));
      EXPECT_EQ(established->param.conn.qp_num, server->qp->qp_num);
    }
    EXPECT_EQ(server->verbs->device->name, std::string("uroce1"));
    EXPECT_EQ(rdma_get_dst_port(client.get()), rdma_get_src_port(listener.get()));
    EXPECT_EQ(rdma_get_dst_port(server.get()), rdma_get_src_port(client.get()));
    exchange_data(client, server);
    exchange_data(server, client);
    client.end();
    server.end();
  }
}

TEST_F(Connecting, ToOneself_ExpectTheSame) {
  listen();
  client = Id(client_channel);
  must(rdma_resolve_addr(client.get(), nullptr, Address(at_server, listener.port()).get(), 30'000));
  client_channel.take(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(client->verbs->device->name, std::string("uroce1"));
  must(rdma_resolve_route(client.get(), 30'000));
  client_channel.take(RDMA_CM_EVENT_ROUTE_RESOLVED);
  make_queue_pair(client);
  must(rdma_connect(client.get(), nullptr));
  server = Id(server_channel.take(RDMA_CM_EVENT_CONNECT_REQUEST)->id);
  make_queue_pair(server);
  accept();
  exchange_data(client, server);
}

TEST_F(Connecting, MorePrivateDataThanFits_ExpectEinvalAndALaterCallThatWorks) {
  listen();
  prepare();
  const std::vector<uint8_t> bytes = counting(197);
  rdma_conn_param param = with_data(bytes);
  param.private_data_len = 57;
  EXPECT_EQ(error_of(rdma_connect(client.get(), &param)), EINVAL);
  param.private_data_len = 56;
  EXPECT_EQ(error_of(rdma_connect(client.get(), &param)), 0);
  {
    const Event asked = server_channel.take(RDMA_CM_EVENT_CONNECT_REQUEST);
    EXPECT_EQ(bytes_of(*asked), counting(56));
    server = Id(asked->id);
  }
  make_queue_pair(server);
  param.private_data_len = 197;
  EXPECT_EQ(error_of(rdma_accept(server.get(), &param)), EINVAL);
  EXPECT_EQ(error_of(rdma_reject(server.get(), bytes.data(), 149)), EINVAL);
  param.private_data_len = 196;
  accept(&param);
}

TEST_F(Connecting, Rejected_ExpectTheReasonTheDataAndAQueuePairInError) {
  listen();
  request();
  const std::vector<uint8_t> why = counting(148);
  EXPECT_EQ(rdma_reject(server.get(), why.data(), 148), 0);
  const Event rejected = client_channel.take(RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(rejected->id, client.get());
  EXPECT_EQ(rejected->status, kConsumerRejects);
  EXPECT_EQ(bytes_of(*rejected), why);
  EXPECT_EQ(client.qp_state(), IBV_QPS_ERR);
  // It was answered once.
  EXPECT_EQ(error_of(rdma_reject(server.get(), nullptr, 0)), EINVAL);
  EXPECT_EQ(error_of(rdma_accept(server.get(), nullptr)), EINVAL);
}

TEST_F(Connecting, NoProgramListens_ExpectRejectedForIt) {
  listen();
  prepare();
  listener.end();
  must(rdma_connect(client.get(), nullptr));
  EXPECT_EQ(client_channel.take(RDMA_CM_EVENT_REJECTED)->status, kInvalidServiceId);
}

TEST_F(Connecting, ListenerEndsWhileRequestsWait_ExpectTheClientsRejected) {
  listen();
  std::vector<Id> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(caller(client_channel));
    make_queue_pair(clients.back());
    must(rdma_connect(clients.back().get(), nullptr));
  }
  EXPECT_TRUE(server_channel.readable(60'000));
  listener.end();
  for (int i = 0; i < 3; ++i) client_channel.take(RDMA_CM_EVENT_REJECTED);
  EXPECT_FALSE(server_channel.readable());
}

/// What the program was told of is its own: a server for one client ends its listener first.
TEST_F(Connecting, ListenerEndsBeforeTheAnswer_ExpectTheConnection) {
  listen();
  request();
  listener.end();
  accept();
  exchange_data(client, server);
}

TEST_F(Connecting, ClientLeavesBeforeTheAnswer_ExpectItsServerToldAndNotTheListener) {
  listen();
  request();
  client.end();
  {
    const Event rejected = server_channel.take(RDMA_CM_EVENT_REJECTED);
    EXPECT_EQ(rejected->id, server.get());
  }
  EXPECT_NE(error_of(rdma_accept(server.get(), nullptr)), 0);
  server.end();
  request();  // the listener goes on
  accept();
}

/// A request that was taken does not count in the backlog any more, whatever the program decides in the end.
TEST_F(Connecting, BacklogOfOne_ExpectAnyNumberTaken) {
  listen(1);
  std::vector<Id> clients;
  std::vector<Id> servers;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(caller(client_channel));
    make_queue_pair(clients.back());
    must(rdma_connect(clients.back().get(), nullptr));
    servers.emplace_back(server_channel.take(RDMA_CM_EVENT_CONNECT_REQUEST)->id);
    make_queue_pair(servers.back());
  }
  for (const Id& one : servers) {
    must(rdma_accept(one.get(), nullptr));
    client_channel.take(RDMA_CM_EVENT_ESTABLISHED);
    server_channel.take(RDMA_CM_EVENT_ESTABLISHED);
  }
}

TEST_F(Connecting, EnhancedEstablishment_ExpectEachEndToSeeTheOthersOptions) {
  listen();
  prepare();
  ibv_ece ours{.vendor_id = 0x15B3, .options = 0x1234'5678, .comp_mask = 0};
  EXPECT_EQ(rdma_set_local_ece(client.get(), &ours), 0);
  must(rdma_connect(client.get(), nullptr));
  server = Id(server_channel.take(RDMA_CM_EVENT_CONNECT_REQUEST)->id);
  ibv_ece theirs{};
  EXPECT_EQ(rdma_get_remote_ece(server.get(), &theirs), 0);
  EXPECT_EQ(theirs.vendor_id, ours.vendor_id);
  EXPECT_EQ(theirs.options, ours.options);
  ibv_ece answer{.vendor_id = 0x15B3, .options = 0x5678, .comp_mask = 0};
  EXPECT_EQ(rdma_set_local_ece(server.get(), &answer), 0);
  make_queue_pair(server);
  accept();
  EXPECT_EQ(rdma_get_remote_ece(client.get(), &theirs), 0);
  EXPECT_EQ(theirs.options, answer.options);

  ibv_ece wrong{.vendor_id = 0x100'0000, .options = 0, .comp_mask = 0};
  EXPECT_EQ(error_of(rdma_set_local_ece(client.get(), &wrong)), EINVAL);
  EXPECT_EQ(error_of(rdma_set_local_ece(client.get(), nullptr)), EINVAL);
}

TEST_F(Connecting, RefusedForItsOptions_ExpectThatReason) {
  listen();
  request();
  EXPECT_EQ(rdma_reject_ece(server.get(), nullptr, 0), 0);
  EXPECT_EQ(client_channel.take(RDMA_CM_EVENT_REJECTED)->status, 35);
}

}  // namespace
}  // namespace uroce::rdmacm_test
