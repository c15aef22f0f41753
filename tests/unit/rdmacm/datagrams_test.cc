#include <rdma/rdma_verbs.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>

#include "ends.h"

// Datagram services, multicast groups, shared receive queues, queue pairs that the program makes itself.
namespace uroce::rdmacm_test {
namespace {

using Datagrams = Ends;

constexpr int kRejected = 2;
constexpr int kUnsupported = 1;

TEST_F(Datagrams, ServiceFound_ExpectItsQueuePairAndPrivateData) {
  listen(8, RDMA_PS_UDP);
  const std::vector<uint8_t> question = counting(180);
  const std::vector<uint8_t> answer = counting(136);
  rdma_conn_param asking{};
  asking.private_data = question.data();
  prepare(IBV_QPT_UD);
  asking.private_data_len = 181;
  EXPECT_EQ(error_of(rdma_connect(client.get(), &asking)), EINVAL);
  asking.private_data_len = 180;
  must(rdma_connect(client.get(), &asking));
  {
    const Event asked = server_channel.take(RDMA_CM_EVENT_CONNECT_REQUEST);
    server = Id(asked->id);
    EXPECT_EQ(server->qp_type, IBV_QPT_UD);
    ASSERT_EQ(private_data_of(*asked).size(), 180U);
    EXPECT_EQ(std::memcmp(private_data_of(*asked).data(), question.data(), 180), 0);
  }
  make_queue_pair(server, IBV_QPT_UD);
  rdma_conn_param answering{};
  answering.private_data = answer.data();
  answering.private_data_len = 136;
  const Event found = accept(&answering);
  EXPECT_EQ(found->param.ud.qp_num, server->qp->qp_num);
  EXPECT_EQ(found->param.ud.qkey, uint32_t{RDMA_UDP_QKEY});
  ASSERT_EQ(private_data_of(*found).size(), 136U);
  EXPECT_EQ(std::memcmp(private_data_of(*found).data(), answer.data(), 136), 0);
  ibv_ah* const way = ibv_create_ah(client->pd, &const_cast<rdma_cm_event&>(*found).param.ud.ah_attr);
  ASSERT_NE(way, nullptr);
  EXPECT_EQ(ibv_destroy_ah(way), 0);
}

TEST_F(Datagrams, RefusedOrNoProgramThere_ExpectTheStatus) {
  listen(8, RDMA_PS_UDP);
  request(IBV_QPT_UD);
  EXPECT_EQ(rdma_reject(server.get(), nullptr, 0), 0);
  EXPECT_EQ(client_channel.take(RDMA_CM_EVENT_UNREACHABLE)->status, kRejected);
  prepare(IBV_QPT_UD);
  listener.end();
  must(rdma_connect(client.get(), nullptr));
  EXPECT_EQ(client_channel.take(RDMA_CM_EVENT_UNREACHABLE)->status, kUnsupported);
}

TEST_F(Datagrams, Groups_ExpectMembersToBeAttachedAndSendersNot) {
  listen(8, RDMA_PS_UDP);
  prepare(IBV_QPT_UD);
  int mark = 0;
  Address group("239.1.2.3");
  must(rdma_join_multicast(client.get(), group.get(), &mark));
  {
    const Event joined = client_channel.take(RDMA_CM_EVENT_MULTICAST_JOIN);
    EXPECT_EQ(joined->status, 0);
    EXPECT_EQ(joined->param.ud.private_data, &mark);
    EXPECT_EQ(joined->param.ud.qp_num, 0xFFFFFFU);
    ibv_gid gid = joined->param.ud.ah_attr.grh.dgid;
    EXPECT_EQ(ibv_detach_mcast(client->qp, &gid, 0), 0);  // it was attached
    EXPECT_EQ(ibv_attach_mcast(client->qp, &gid, 0), 0);
  }
  EXPECT_EQ(error_of(rdma_join_multicast(client.get(), Address(kServer).get(), nullptr)), EINVAL);
  EXPECT_EQ(rdma_leave_multicast(client.get(), group.get()), 0);
  EXPECT_EQ(error_of(rdma_leave_multicast(client.get(), group.get())), EADDRNOTAVAIL);

  rdma_cm_join_mc_attr_ex sending{};
  sending.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
  sending.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
  sending.addr = group.get();
  must(rdma_join_multicast_ex(client.get(), &sending, nullptr));
  {
    const Event joined = client_channel.take(RDMA_CM_EVENT_MULTICAST_JOIN);
    ibv_gid gid = joined->param.ud.ah_attr.grh.dgid;
    EXPECT_NE(ibv_detach_mcast(client->qp, &gid, 0), 0);
  }
  EXPECT_EQ(rdma_leave_multicast(client.get(), group.get()), 0);
  sending.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS;
  EXPECT_EQ(error_of(rdma_join_multicast_ex(client.get(), &sending, nullptr)), EINVAL);
}

TEST_F(Datagrams, LeftBeforeItsEventIsTaken_ExpectNoEvent) {
  client = Id(client_channel, RDMA_PS_UDP);
  must(rdma_bind_addr(client.get(), Address(at_client).get()));
  Address left("239.1.2.3");
  Address kept("239.1.2.4");
  int mark = 0;
  must(rdma_join_multicast(client.get(), left.get(), nullptr));
  must(rdma_join_multicast(client.get(), kept.get(), &mark));
  EXPECT_EQ(rdma_leave_multicast(client.get(), left.get()), 0);
  EXPECT_EQ(client_channel.take(RDMA_CM_EVENT_MULTICAST_JOIN)->param.ud.private_data, &mark);
  EXPECT_FALSE(client_channel.readable());
  EXPECT_EQ(rdma_leave_multicast(client.get(), kept.get()), 0);
}

/// Whose context may be freed when the call has returned.
TEST_F(Datagrams, LeftWhileItsEventIsUsed_ExpectTheCallToWaitForTheAcknowledgement) {
  client = Id(client_channel, RDMA_PS_UDP);
  must(rdma_bind_addr(client.get(), Address(at_client).get()));
  Address group("239.1.2.3");
  must(rdma_join_multicast(client.get(), group.get(), nullptr));
  Event joined = client_channel.take(RDMA_CM_EVENT_MULTICAST_JOIN);
  std::atomic<bool> acknowledged = false;
  std::thread leaving([&] {
    EXPECT_EQ(rdma_leave_multicast(client.get(), group.get()), 0);
    EXPECT_TRUE(acknowledged);
  });
  std::this_thread::yield();
  acknowledged = true;
  joined.reset();
  leaving.join();
}

TEST_F(Datagrams, SynchronousId_ExpectJoiningToWaitForItsEvent) {
  client = Id(client_channel, RDMA_PS_UDP);
  must(rdma_bind_addr(client.get(), Address(at_client).get()));
  must(rdma_migrate_id(client.get(), nullptr));
  Address group("239.1.2.3");
  int mark = 0;
  must(rdma_join_multicast(client.get(), group.get(), &mark));
  ASSERT_NE(client->event, nullptr);
  EXPECT_EQ(client->event->event, RDMA_CM_EVENT_MULTICAST_JOIN);
  EXPECT_EQ(client->event->param.ud.private_data, &mark);
  EXPECT_EQ(rdma_leave_multicast(client.get(), group.get()), 0);
  EXPECT_EQ(client->event, nullptr);
}

/// A queue pair that the program makes and moves without the library.
struct OwnQueuePair {
  explicit OwnQueuePair(const Id& id) : completions(ibv_create_cq(id->verbs, 8, nullptr, nullptr, 0)) {
    ibv_qp_init_attr wanted = queue_pair_of(IBV_QPT_RC);
    wanted.send_cq = wanted.recv_cq = completions;
    qp = ibv_create_qp(id->pd, &wanted);
    if (qp == nullptr) throw std::system_error(errno, std::generic_category());
  }
  ~OwnQueuePair() {
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    EXPECT_EQ(ibv_destroy_cq(completions), 0);
  }

  ibv_cq* completions;
  ibv_qp* qp;
};

/// As UCX and libfabric do it: the library connects, the program moves the queue pair.
TEST_F(Datagrams, QueuePairOfTheProgram_ExpectEstablishedByHand) {
  listen();
  client = caller(client_channel);
  const OwnQueuePair own(client);
  ibv_qp* const qp = own.qp;
  rdma_conn_param param{};
  param.qp_num = qp->qp_num;
  must(rdma_connect(client.get(), &param));
  {
    const Event asked = server_channel.take(RDMA_CM_EVENT_CONNECT_REQUEST);
    EXPECT_EQ(asked->param.conn.qp_num, qp->qp_num);
    server = Id(asked->id);
  }
  make_queue_pair(server);
  must(rdma_accept(server.get(), nullptr));
  client_channel.take(RDMA_CM_EVENT_CONNECT_RESPONSE);
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    int mask = 0;
    must(rdma_init_qp_attr(client.get(), &attributes, &mask));
    EXPECT_EQ(ibv_modify_qp(qp, &attributes, mask), 0);
  }
  EXPECT_EQ(error_of(rdma_establish(client.get())), 0);
  server_channel.take(RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(rdma_notify(server.get(), IBV_EVENT_COMM_EST), 0);  // too late to matter
  EXPECT_EQ(error_of(rdma_notify(server.get(), IBV_EVENT_PATH_MIG)), EINVAL);
}

/// Data may come before the message that says it may.
TEST_F(Datagrams, NotifiedOfData_ExpectEstablishedWithoutThePeersMessage) {
  listen();
  client = caller(client_channel);
  const OwnQueuePair own(client);
  rdma_conn_param param{};
  param.qp_num = own.qp->qp_num;
  must(rdma_connect(client.get(), &param));
  server = Id(server_channel.take(RDMA_CM_EVENT_CONNECT_REQUEST)->id);
  make_queue_pair(server);
  must(rdma_accept(server.get(), nullptr));
  client_channel.take(RDMA_CM_EVENT_CONNECT_RESPONSE);  // and says nothing
  EXPECT_FALSE(server_channel.readable());
  EXPECT_EQ(rdma_notify(server.get(), IBV_EVENT_COMM_EST), 0);
  server_channel.take(RDMA_CM_EVENT_ESTABLISHED);
}

TEST_F(Datagrams, SharedReceiveQueue_ExpectQueuePairsToUseIt) {
  listen();
  prepare();
  must(rdma_connect(client.get(), nullptr));
  server = Id(server_channel.take(RDMA_CM_EVENT_CONNECT_REQUEST)->id);
  ibv_srq_init_attr wanted{};
  wanted.attr.max_wr = 8;
  wanted.attr.max_sge = 1;
  must(rdma_create_srq(server.get(), nullptr, &wanted));
  EXPECT_NE(server->srq, nullptr);
  EXPECT_EQ(error_of(rdma_create_srq(server.get(), nullptr, &wanted)), EINVAL);
  make_queue_pair(server);
  EXPECT_EQ(server->qp->srq, server->srq);
  accept();
  exchange_data(client, server);
}

}  // namespace
}  // namespace uroce::rdmacm_test
