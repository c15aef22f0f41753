#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>

#include "ends.h"

namespace uroce::verbs_test {

/// A domain on the second device with a shared receive queue, which the queue pairs of two connections use.
class SharedReceiveQueue : public ::testing::Test {
 protected:
  static constexpr uint32_t kDepth = 8;

  SharedReceiveQueue() {
    ibv_srq_init_attr initial{};
    initial.srq_context = this;
    initial.attr.max_wr = kDepth;
    initial.attr.max_sge = 2;
    srq = ibv_create_srq(server.pd, &initial);
    EXPECT_NE(srq, nullptr);
    EXPECT_EQ(initial.attr.max_wr, kDepth);
    for (size_t i = 0; i < 2; ++i) {
      ibv_qp_init_attr wanted{};
      wanted.send_cq = wanted.recv_cq = server.cq;
      wanted.srq = srq;
      wanted.qp_type = IBV_QPT_RC;
      wanted.cap = {4, 0, 1, 0, 0};
      qps[i] = ibv_create_qp(server.pd, &wanted);
      EXPECT_NE(qps[i], nullptr);
      join(clients[i], qps[i]);
    }
  }
  ~SharedReceiveQueue() override {
    EXPECT_EQ(ibv_destroy_srq(srq), EBUSY);
    for (ibv_qp* qp : qps) EXPECT_EQ(ibv_destroy_qp(qp), 0);
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
  }

  void join(const End& client, ibv_qp* qp) const {
    client.to_init();
    ibv_qp_attr attributes = init_attributes(0);
    ASSERT_EQ(ibv_modify_qp(qp, &attributes, kInitMask), 0);
    ibv_gid gid{};
    ASSERT_EQ(ibv_query_gid(client.context, 1, kGidIndex, &gid), 0);
    attributes = rtr_attributes(server.context, client.qp->qp_num, gid);
    ASSERT_EQ(ibv_modify_qp(qp, &attributes, kRtrMask), 0);
    ASSERT_EQ(ibv_query_gid(server.context, 1, kGidIndex, &gid), 0);
    attributes = rtr_attributes(client.context, qp->qp_num, gid);
    ASSERT_EQ(ibv_modify_qp(client.qp, &attributes, kRtrMask), 0);
    client.to_rts();
    attributes = rts_attributes();
    ASSERT_EQ(ibv_modify_qp(qp, &attributes, kRtsMask), 0);
  }

  int post(uint64_t id, ibv_sge segment) {
    ibv_recv_wr request{};
    request.wr_id = id;
    request.sg_list = &segment;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    return ibv_post_srq_recv(srq, &request, &bad);
  }

  static void send(const End& from, size_t bytes) {
    ibv_sge segment = from.part(0, bytes);
    ASSERT_EQ(from.send(send_request(7, segment)), 0);
    EXPECT_EQ(from.next().status, IBV_WC_SUCCESS);
  }

  End server{device_at(1), {}};
  End clients[2]{{device_at(0), {}}, {device_at(0), {}}};
  ibv_srq* srq = nullptr;
  ibv_qp* qps[2] = {};
};

TEST_F(SharedReceiveQueue, ServesWhoeverSendsFirst) {
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(post(i, server.part(i * 100, 100)), 0);
  const size_t senders[] = {1, 0, 0, 1};
  for (size_t i = 0; i < 4; ++i) {
    clients[senders[i]].fill(static_cast<uint8_t>(i + 1));
    send(clients[senders[i]], 100);
    const ibv_wc done = server.next();
    EXPECT_EQ(done.status, IBV_WC_SUCCESS);
    EXPECT_EQ(done.wr_id, i);
    EXPECT_EQ(done.qp_num, qps[senders[i]]->qp_num);
    EXPECT_EQ(server.memory[i * 100], i + 1);
    EXPECT_EQ(server.memory[i * 100 + 99], static_cast<uint8_t>(i + 100));
  }
}

TEST_F(SharedReceiveQueue, AnEmptyOneMakesSendersWait) {
  ibv_sge segment = clients[0].part(0, 10);
  ASSERT_EQ(clients[0].send(send_request(1, segment)), 0);
  EXPECT_TRUE(server.nothing_to_poll());
  ASSERT_EQ(post(9, server.all()), 0);
  EXPECT_EQ(clients[0].next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(server.next().wr_id, 9U);
}

TEST_F(SharedReceiveQueue, TellsWhenItRunsLow) {
  for (uint64_t i = 0; i < kDepth; ++i) ASSERT_EQ(post(i, server.all()), 0);
  ibv_srq_attr attributes{};
  attributes.srq_limit = kDepth - 1;
  ASSERT_EQ(ibv_modify_srq(srq, &attributes, IBV_SRQ_LIMIT), 0);
  attributes = {};
  ASSERT_EQ(ibv_query_srq(srq, &attributes), 0);
  EXPECT_EQ(attributes.max_wr, kDepth);
  EXPECT_EQ(attributes.max_sge, 2U);
  EXPECT_EQ(attributes.srq_limit, kDepth - 1);

  send(clients[0], 1);
  send(clients[1], 1);
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(server.context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(event.element.srq, srq);
  ibv_ack_async_event(&event);
  ASSERT_EQ(ibv_query_srq(srq, &attributes), 0);
  EXPECT_EQ(attributes.srq_limit, 0U);
}

TEST_F(SharedReceiveQueue, TellsWhenAQueuePairHasNoneOfItsRequestsAnyMore) {
  ASSERT_EQ(post(1, server.all()), 0);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(qps[0], &attributes, IBV_QP_STATE), 0);
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(server.context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
  EXPECT_EQ(event.element.qp, qps[0]);
  ibv_ack_async_event(&event);
  EXPECT_TRUE(server.nothing_to_poll()) << "what was posted is the others'";
  send(clients[1], 10);
  EXPECT_EQ(server.next().wr_id, 1U);
}

TEST_F(SharedReceiveQueue, RefusesWhatCannotBe) {
  ibv_srq_attr attributes{};
  attributes.srq_limit = kDepth + 1;
  EXPECT_EQ(ibv_modify_srq(srq, &attributes, IBV_SRQ_LIMIT), EINVAL);
  attributes.max_wr = 2 * kDepth;
  EXPECT_EQ(ibv_modify_srq(srq, &attributes, IBV_SRQ_MAX_WR), EINVAL) << "no device flag promises it";
  for (uint64_t i = 0; i < kDepth; ++i) ASSERT_EQ(post(i, server.all()), 0);
  EXPECT_EQ(post(kDepth, server.all()), ENOMEM);

  ibv_sge segments[3] = {server.part(0, 1), server.part(1, 1), server.part(2, 1)};
  ibv_recv_wr request{};
  request.sg_list = segments;
  request.num_sge = 3;
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_srq_recv(srq, &request, &bad), EINVAL);
  EXPECT_EQ(bad, &request);
  bad = nullptr;
  request.num_sge = 1;
  EXPECT_EQ(ibv_post_recv(qps[0], &request, &bad), EINVAL) << "it has no queue of its own";
  EXPECT_EQ(bad, &request);

  ibv_srq_init_attr initial{};
  EXPECT_EQ(ibv_create_srq(server.pd, &initial), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(server.context, &device), 0);
  initial.attr.max_wr = static_cast<uint32_t>(device.max_srq_wr) + 1;
  EXPECT_EQ(ibv_create_srq(server.pd, &initial), nullptr);
  initial.attr.max_wr = 1;
  initial.attr.max_sge = static_cast<uint32_t>(device.max_srq_sge) + 1;
  EXPECT_EQ(ibv_create_srq(server.pd, &initial), nullptr);
  EXPECT_EQ(ibv_dealloc_pd(server.pd), EBUSY);
}

TEST_F(SharedReceiveQueue, IsNamedByItsQueuePairs) {
  EXPECT_EQ(qps[0]->srq, srq);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ASSERT_EQ(ibv_query_qp(qps[0], &attributes, IBV_QP_STATE, &initial), 0);
  EXPECT_EQ(initial.srq, srq);
  EXPECT_EQ(initial.cap.max_recv_wr, 0U);
  EXPECT_EQ(srq->srq_context, this);
}

}  // namespace uroce::verbs_test
