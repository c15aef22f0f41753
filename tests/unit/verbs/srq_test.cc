#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <thread>
#include <utility>

#include "xrc_ends.h"

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

  End server{device_at(1), {.bytes = 1 << 19}};
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

/// The buffers of a shared receive queue are its own domain's, whatever domain the queue pairs are of.
TEST_F(SharedReceiveQueue, ItsBuffersAreOfItsOwnDomain) {
  ibv_pd* const domain = ibv_alloc_pd(server.context);
  constexpr int kLocalWrite = IBV_ACCESS_LOCAL_WRITE;  // an integer: the macro mixes enumerations
  ibv_mr* const own = ibv_reg_mr(domain, server.memory.data(), server.memory.size(), kLocalWrite);
  ASSERT_NE(own, nullptr);
  ibv_srq_init_attr initial{};
  initial.attr = {.max_wr = 2, .max_sge = 1, .srq_limit = 0};
  ibv_srq* const foreign = ibv_create_srq(domain, &initial);
  ASSERT_NE(foreign, nullptr);
  const End client(device_at(0), {});
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = server.cq;
  wanted.srq = foreign;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {4, 0, 1, 0, 0};
  ibv_qp* const qp = ibv_create_qp(server.pd, &wanted);
  join(client, qp);
  ibv_srq* const before = std::exchange(srq, foreign);
  ibv_sge buffer = server.part(0, 100);
  buffer.lkey = own->lkey;
  ASSERT_EQ(post(1, buffer), 0);
  send(client, 100);
  EXPECT_EQ(server.next().status, IBV_WC_SUCCESS);

  ASSERT_EQ(post(2, server.part(0, 100)), 0);
  ibv_sge segment = client.part(0, 100);
  ASSERT_EQ(client.send(send_request(8, segment)), 0);
  EXPECT_EQ(server.next().status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(client.next().status, IBV_WC_REM_OP_ERR);
  srq = before;
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_srq(foreign), 0);
  EXPECT_EQ(ibv_dereg_mr(own), 0);
  EXPECT_EQ(ibv_dealloc_pd(domain), 0);
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

class SharedReceiveQueueResize : public SharedReceiveQueue {
 protected:
  int resize(uint32_t depth, uint32_t limit = 0, int mask = IBV_SRQ_MAX_WR) const {
    ibv_srq_attr attributes{};
    attributes.max_wr = depth;
    attributes.srq_limit = limit;
    return ibv_modify_srq(srq, &attributes, mask);
  }
  ibv_srq_attr query() const {
    ibv_srq_attr attributes{};
    EXPECT_EQ(ibv_query_srq(srq, &attributes), 0);
    return attributes;
  }
};

TEST_F(SharedReceiveQueueResize, ToMoreAndToFewer) {
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(server.context, &device), 0);
  EXPECT_NE(device.device_cap_flags & IBV_DEVICE_SRQ_RESIZE, 0U);
  for (uint64_t i = 0; i < kDepth; ++i) ASSERT_EQ(post(i, server.part(i, 1)), 0);
  ASSERT_EQ(resize(4 * kDepth), 0);
  EXPECT_EQ(query().max_wr, 4 * kDepth);
  EXPECT_EQ(query().max_sge, 2U);
  for (uint64_t i = kDepth; i < 4 * kDepth; ++i) ASSERT_EQ(post(i, server.part(i, 1)), 0);
  EXPECT_EQ(post(0, server.all()), ENOMEM);
  EXPECT_EQ(resize(4 * kDepth - 1), EINVAL) << "so many are outstanding";
  EXPECT_EQ(query().max_wr, 4 * kDepth);
  for (uint64_t i = 0; i < 4 * kDepth - 2; ++i) {
    send(clients[i % 2], 1);
    EXPECT_EQ(server.next().wr_id, i);
  }
  ASSERT_EQ(resize(2), 0);
  EXPECT_EQ(post(0, server.all()), ENOMEM);
  for (uint64_t i = 4 * kDepth - 2; i < 4 * kDepth; ++i) {
    send(clients[0], 1);
    EXPECT_EQ(server.next().wr_id, i);
  }
}

TEST_F(SharedReceiveQueueResize, TogetherWithTheLimitOrNotAtAll) {
  EXPECT_EQ(resize(0), EINVAL);
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(server.context, &device), 0);
  EXPECT_EQ(resize(static_cast<uint32_t>(device.max_srq_wr) + 1), EINVAL);
  EXPECT_EQ(resize(32, 33, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), EINVAL);
  EXPECT_EQ(query().max_wr, kDepth) << "none of the attributes is modified";
  EXPECT_EQ(resize(32, 1, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT | 1 << 7), EINVAL);
  ASSERT_EQ(resize(32, 32, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
  EXPECT_EQ(query().max_wr, 32U);
  EXPECT_EQ(query().srq_limit, 32U);
  ASSERT_EQ(resize(static_cast<uint32_t>(device.max_srq_wr)), 0);
}

/// Two connections send, one thread posts, another changes the size all the time: each receive completes
/// once, in the order of the queue, with its own bytes.
TEST_F(SharedReceiveQueueResize, UnderLoad) {
  constexpr uint64_t kMessages = 4000;  // and so many more as long as the resizer has hardly run
  constexpr uint64_t kResizedMin = 10;
  constexpr size_t kBytes = 3000;  // of three packets, so that requests are taken while the size changes
  std::atomic<uint64_t> resized{0};
  std::jthread resizer([&](const std::stop_token& over) {
    for (uint32_t i = 0; !over.stop_requested(); ++i) {
      const int error = resize(8 + i * 13 % 64);
      EXPECT_TRUE(error == 0 || error == EINVAL);
      resized += error == 0 ? 1 : 0;
    }
  });
  uint64_t posted = 0;
  uint64_t completed = 0;
  uint64_t sent[2] = {};
  uint64_t acknowledged[2] = {};
  clients[0].fill(1);
  clients[1].fill(2);
  for (uint64_t wanted = kMessages; completed < wanted || resized <= kResizedMin;) {
    if (completed == wanted && wanted < 1000 * kMessages) wanted += kMessages;
    while (posted < wanted && post(posted, server.part(posted % 128 * 4096, kBytes)) == 0) ++posted;
    for (size_t i = 0; i < 2; ++i) {
      ibv_sge segment = clients[i].part(0, kBytes);
      while (sent[i] < wanted / 2 && sent[i] - acknowledged[i] < 8 &&
             clients[i].send(send_request(sent[i], segment)) == 0)
        ++sent[i];
      ibv_wc sent_one{};
      while (ibv_poll_cq(clients[i].cq, 1, &sent_one) == 1) {
        ASSERT_EQ(sent_one.status, IBV_WC_SUCCESS);
        ++acknowledged[i];
      }
    }
    // All of them: the completion queue has room for what is on its way, and no more.
    ibv_wc done{};
    while (ibv_poll_cq(server.cq, 1, &done) == 1) {
      ASSERT_EQ(done.status, IBV_WC_SUCCESS);
      ASSERT_EQ(done.byte_len, kBytes);
      const size_t from = done.qp_num == qps[0]->qp_num ? 0 : 1;
      ASSERT_TRUE(std::equal(clients[from].memory.begin(), clients[from].memory.begin() + kBytes,
                             server.memory.begin() + static_cast<ptrdiff_t>(done.wr_id % 128 * 4096)));
      ++completed;
    }
  }
  resizer.request_stop();
  resizer.join();
  EXPECT_TRUE(server.nothing_to_poll());
}

/// The same of XRC, whose queue is its domain's poller's.
TEST_F(XrcPair, ASharedReceiveQueueIsResized) {
  ibv_srq_attr attributes{};
  for (const uint32_t depth : {100U, 3U}) {
    attributes.max_wr = depth;
    ASSERT_EQ(ibv_modify_srq(first.srq, &attributes, IBV_SRQ_MAX_WR), 0);
    for (uint64_t i = 0; i < depth; ++i) ASSERT_EQ(first.post(i, 0, 100), 0);
    EXPECT_EQ(first.post(0, 0, 100), ENOMEM);
    for (uint64_t i = 0; i < depth; ++i) {
      ibv_sge segment = client.part(0, 100);
      expect_outcome(request(IBV_WR_SEND, segment, first), IBV_WC_SUCCESS);
      EXPECT_EQ(first.next().wr_id, i);
    }
  }
}

}  // namespace uroce::verbs_test
