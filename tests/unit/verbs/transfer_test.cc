#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "ends.h"

// Data from one device of the embedded default to the other, by nothing but verbs.h.

namespace uroce::verbs_test {

using Transfer = Connected;

TEST_F(Transfer, SendArrivesInTheReceiveBuffer) {
  one.fill(1);
  ASSERT_EQ(other.receive(7, other.all()), 0);
  ibv_sge segment = one.part(0, 3000);
  ASSERT_EQ(one.send(send_request(5, segment)), 0);

  const ibv_wc sent = one.next();
  EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
  EXPECT_EQ(sent.wr_id, 5U);
  EXPECT_EQ(sent.opcode, IBV_WC_SEND);
  EXPECT_EQ(sent.qp_num, one.qp->qp_num);
  const ibv_wc received = other.next();
  EXPECT_EQ(received.status, IBV_WC_SUCCESS);
  EXPECT_EQ(received.wr_id, 7U);
  EXPECT_EQ(received.opcode, IBV_WC_RECV);
  EXPECT_EQ(received.byte_len, 3000U);
  EXPECT_EQ(received.wc_flags, 0U);
  EXPECT_EQ(received.qp_num, other.qp->qp_num);
  EXPECT_TRUE(std::equal(one.memory.begin(), one.memory.begin() + 3000, other.memory.begin()));
  EXPECT_EQ(other.memory[3000], 0);
}

TEST_F(Transfer, ImmediateDataComesAlong) {
  ASSERT_EQ(other.receive(1, other.all()), 0);
  ASSERT_EQ(other.receive(2, other.all()), 0);
  ibv_sge segment = one.part(0, 10);
  ibv_send_wr request = send_request(1, segment);
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.imm_data = 0x12345678;
  ASSERT_EQ(one.send(request), 0);
  const ibv_wc first = other.next();
  EXPECT_EQ(first.imm_data, 0x12345678U);
  EXPECT_EQ(first.wc_flags, static_cast<unsigned int>(IBV_WC_WITH_IMM));

  request = write_request(2, segment, other, 100);
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.imm_data = 0x9ABCDEF0;
  ASSERT_EQ(one.send(request), 0);
  const ibv_wc second = other.next();
  EXPECT_EQ(second.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(second.wr_id, 2U);
  EXPECT_EQ(second.byte_len, 10U);
  EXPECT_EQ(second.imm_data, 0x9ABCDEF0U);
}

TEST_F(Transfer, WriteAndReadMoveWholeRegions) {
  one.fill(3);
  ibv_sge segment = one.all();
  ASSERT_EQ(one.send(write_request(1, segment, other)), 0);
  EXPECT_EQ(one.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(one.memory, other.memory);

  other.fill(99);
  ASSERT_EQ(one.send(read_request(2, segment, other)), 0);
  const ibv_wc read = one.next();
  EXPECT_EQ(read.status, IBV_WC_SUCCESS);
  EXPECT_EQ(read.opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(one.memory, other.memory);
}

TEST_F(Transfer, PiecesAreGatheredAndScattered) {
  one.fill(1);
  ibv_sge to[2] = {other.part(500, 30), other.part(100, 1000)};
  ibv_recv_wr receive{};
  receive.sg_list = to;
  receive.num_sge = 2;
  ibv_recv_wr* bad_receive = nullptr;
  ASSERT_EQ(ibv_post_recv(other.qp, &receive, &bad_receive), 0);
  ibv_sge from[3] = {one.part(0, 10), one.part(50, 0), one.part(200, 40)};
  ibv_send_wr request = send_request(1, from[0]);
  request.num_sge = 3;
  ASSERT_EQ(one.send(request), 0);
  EXPECT_EQ(other.next().byte_len, 50U);
  EXPECT_TRUE(std::equal(&other.memory[500], &other.memory[510], &one.memory[0]));
  EXPECT_TRUE(std::equal(&other.memory[510], &other.memory[530], &one.memory[200]));
  EXPECT_TRUE(std::equal(&other.memory[100], &other.memory[120], &one.memory[220]));
}

TEST_F(Transfer, InlineDataMayBeReusedAtOnce) {
  ASSERT_EQ(other.receive(1, other.all()), 0);
  std::vector<uint8_t> unregistered(64, 0x5A);
  ibv_sge segment{reinterpret_cast<uintptr_t>(unregistered.data()), 64, 0};
  ibv_send_wr request = send_request(1, segment);
  request.send_flags |= IBV_SEND_INLINE;
  ASSERT_EQ(one.send(request), 0);
  std::fill(unregistered.begin(), unregistered.end(), 0);
  EXPECT_EQ(other.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(std::count(other.memory.begin(), other.memory.begin() + 64, 0x5A), 64);
}

TEST_F(Transfer, UnsignaledRequestsCompleteSilently) {
  ibv_sge segment = one.part(0, 8);
  for (int i = 0; i < 10; ++i) {
    ibv_send_wr request = write_request(100, segment, other);
    request.send_flags = 0;
    ASSERT_EQ(one.send(request), 0);
  }
  ASSERT_EQ(one.send(write_request(1, segment, other)), 0);
  EXPECT_EQ(one.next().wr_id, 1U);
  EXPECT_TRUE(one.nothing_to_poll());
}

TEST_F(Transfer, AListIsPostedUpToTheFirstBadRequest) {
  ibv_sge segment = one.part(0, 8);
  ibv_send_wr requests[3] = {write_request(1, segment, other), write_request(2, segment, other),
                             write_request(3, segment, other)};
  requests[0].next = &requests[1];
  requests[1].next = &requests[2];
  requests[1].num_sge = 99;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(one.qp, &requests[0], &bad), EINVAL);
  EXPECT_EQ(bad, &requests[1]);
  EXPECT_EQ(one.next().wr_id, 1U) << "the one before was posted";
  EXPECT_TRUE(one.nothing_to_poll());
}

TEST_F(Transfer, BadRequestsAreRefused) {
  ibv_sge segment = one.part(0, 65);
  ibv_send_wr request = send_request(1, segment);
  request.send_flags |= IBV_SEND_INLINE;
  EXPECT_EQ(one.send(request), EINVAL) << "too long to be inline";
  segment.length = 8;
  request.opcode = IBV_WR_RDMA_READ;
  EXPECT_EQ(one.send(request), EINVAL) << "inline read";
  request = send_request(1, segment);
  request.num_sge = -1;
  EXPECT_EQ(one.send(request), EINVAL);
  request = send_request(1, segment);
  request.opcode = IBV_WR_TSO;
  EXPECT_EQ(one.send(request), EOPNOTSUPP);
  request.opcode = static_cast<ibv_wr_opcode>(13);
  EXPECT_EQ(one.send(request), EINVAL);
  request = send_request(1, segment);
  request.send_flags |= 1 << 10;
  EXPECT_EQ(one.send(request), EINVAL);
  ibv_sge half[2] = {one.all(), one.all()};
  half[0].length = half[1].length = (1U << 30) + 1;
  request = send_request(1, half[0]);
  request.num_sge = 2;
  EXPECT_EQ(one.send(request), EINVAL) << "longer than a message can be";
  EXPECT_TRUE(one.nothing_to_poll());

  ibv_recv_wr receive{};
  receive.num_sge = 5;
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_recv(one.qp, &receive, &bad), EINVAL);
  EXPECT_EQ(bad, &receive);
}

TEST_F(Transfer, AFullQueueSaysSo) {
  for (int i = 0; i < 16; ++i) ASSERT_EQ(other.receive(1, other.all()), 0);
  EXPECT_EQ(other.receive(1, other.all()), ENOMEM);
}

TEST_F(Transfer, ErrorsArriveAsCompletionsAndTheRestIsFlushed) {
  ibv_sge segment = one.part(0, 8);
  ASSERT_EQ(one.receive(50, one.all()), 0);
  ibv_send_wr request = write_request(1, segment, other);
  request.wr.rdma.rkey ^= 1;
  ASSERT_EQ(one.send(request), 0);
  const ibv_wc refused = one.next();
  EXPECT_EQ(refused.status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(refused.wr_id, 1U);
  EXPECT_EQ(one.next().status, IBV_WC_WR_FLUSH_ERR) << "the posted receive";

  // In the error state posts are accepted and flushed.
  ASSERT_EQ(one.send(write_request(2, segment, other)), 0);
  const ibv_wc flushed = one.next();
  EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(flushed.wr_id, 2U);
  ASSERT_EQ(one.receive(3, one.all()), 0);
  EXPECT_EQ(one.next().wr_id, 3U);

  ibv_qp_attr now{};
  ibv_qp_init_attr made{};
  ASSERT_EQ(ibv_query_qp(one.qp, &now, IBV_QP_STATE, &made), 0);
  EXPECT_EQ(now.qp_state, IBV_QPS_ERR);
  EXPECT_EQ(one.qp->state, IBV_QPS_ERR);
}

TEST_F(Transfer, APeerThatIsGoneIsNoticed) {
  ASSERT_EQ(ibv_destroy_qp(other.qp), 0);
  other.qp = nullptr;
  ibv_sge segment = one.part(0, 8);
  ASSERT_EQ(one.send(write_request(1, segment, other)), 0);
  EXPECT_EQ(one.next().status, IBV_WC_RETRY_EXC_ERR);
}

TEST_F(Transfer, GoesOnAfterResetAndReconnect) {
  ibv_qp_attr reset{};
  reset.qp_state = IBV_QPS_RESET;
  for (const End* end : {&one, &other}) ASSERT_EQ(ibv_modify_qp(end->qp, &reset, IBV_QP_STATE), 0);
  ibv_sge segment = one.part(0, 8);
  EXPECT_EQ(one.send(send_request(1, segment)), EINVAL);
  EXPECT_EQ(one.receive(1, one.all()), EINVAL);
  connect(one, other);
  ASSERT_EQ(one.send(write_request(1, segment, other)), 0);
  EXPECT_EQ(one.next().status, IBV_WC_SUCCESS);
}

TEST_F(Transfer, WhatWasFlushedBeforeAResetIsNotToldAfterIt) {
  ibv_qp_init_attr initial{};
  initial.send_cq = initial.recv_cq = one.cq;
  initial.cap = {
      .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  initial.qp_type = IBV_QPT_RC;
  ibv_qp* bystander = ibv_create_qp(one.pd, &initial);
  ASSERT_NE(bystander, nullptr);
  ibv_qp_attr to = init_attributes(0);
  ASSERT_EQ(ibv_modify_qp(bystander, &to, kInitMask), 0);
  ibv_recv_wr request{.wr_id = 77, .next = nullptr, .sg_list = nullptr, .num_sge = 0};
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(bystander, &request, &bad), 0);
  for (uint64_t id = 0; id < 3; ++id) ASSERT_EQ(one.receive(id, one.all()), 0);

  to.qp_state = IBV_QPS_ERR;
  for (ibv_qp* qp : {one.qp, bystander}) ASSERT_EQ(ibv_modify_qp(qp, &to, IBV_QP_STATE), 0);
  EXPECT_EQ(one.next().status, IBV_WC_WR_FLUSH_ERR);
  to.qp_state = IBV_QPS_RESET;
  ASSERT_EQ(ibv_modify_qp(one.qp, &to, IBV_QP_STATE), 0);
  EXPECT_EQ(one.next().wr_id, 77U) << "of a queue pair that was not reset";
  EXPECT_TRUE(one.nothing_to_poll());
  EXPECT_EQ(ibv_destroy_qp(bystander), 0);
}

TEST(BeforeConnection, PostsAreRefusedUntilTheStateAllowsThem) {
  End one(device_at(0), {});
  End other(device_at(1), {});
  ibv_sge segment = one.part(0, 8);
  EXPECT_EQ(one.receive(1, one.all()), EINVAL);
  one.to_init();
  EXPECT_EQ(one.receive(1, one.all()), 0);
  EXPECT_EQ(one.send(send_request(1, segment)), EINVAL);
  one.to_rtr(other);
  EXPECT_EQ(one.send(send_request(1, segment)), EINVAL);
}

TEST(SmallestQueues, ADepthOfOneWorks) {
  End one(device_at(0), {.completions = 1, .depth = 1});
  End other(device_at(1), {.completions = 1, .depth = 1});
  connect(one, other);
  ibv_sge segment = one.part(0, 100);
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_EQ(other.receive(i, other.all()), 0);
    ASSERT_EQ(one.send(send_request(i, segment)), 0);
    EXPECT_EQ(one.next().wr_id, i);
    EXPECT_EQ(other.next().wr_id, i);
  }
}

TEST(ToItself, AQueuePairMayBeConnectedToItself) {
  End one(device_at(0), {});
  one.to_init();
  one.to_rtr(one);
  one.to_rts();
  one.fill(4);
  ibv_sge segment = one.part(0, 100);
  ASSERT_EQ(one.send(write_request(1, segment, one, 1000)), 0);
  EXPECT_EQ(one.next().status, IBV_WC_SUCCESS);
  EXPECT_TRUE(std::equal(&one.memory[0], &one.memory[100], &one.memory[1000]));
}

TEST(Threads, TwoMayPostToOneQueuePairAndTwoMayPollOneQueue) {
  End one(device_at(0), {.completions = 4096, .depth = 256});
  End other(device_at(1), {});
  connect(one, other);
  constexpr uint64_t kEach = 2000;
  std::vector<std::atomic<uint32_t>> completed(2 * kEach);
  std::atomic<uint64_t> total{0};
  const auto work = [&](uint64_t first) {
    ibv_sge segment = one.part(0, 32);
    uint64_t posted = 0;
    while (posted < kEach || total.load() < 2 * kEach) {
      if (posted < kEach && one.send(write_request(first + posted, segment, other)) == 0) ++posted;
      ibv_wc batch[8];
      const int got = ibv_poll_cq(one.cq, 8, batch);
      ASSERT_GE(got, 0);
      for (int i = 0; i < got; ++i) {
        EXPECT_EQ(batch[i].status, IBV_WC_SUCCESS);
        completed[batch[i].wr_id].fetch_add(1);
      }
      total.fetch_add(static_cast<uint64_t>(got));
    }
  };
  std::thread second(work, kEach);
  work(0);
  second.join();
  for (const auto& count : completed) EXPECT_EQ(count.load(), 1U);
}

TEST_F(Transfer, AQueueIsResizedWithCompletionsInIt) {
  ASSERT_EQ(one.cq->cqe, 64);
  ibv_sge segment = one.part(0, 10);
  for (uint64_t id = 0; id < 8; ++id) ASSERT_EQ(one.send(write_request(id, segment, other)), 0);
  EXPECT_EQ(one.next().wr_id, 0U);
  ASSERT_EQ(ibv_resize_cq(one.cq, 1000), 0);
  EXPECT_GE(one.cq->cqe, 1000);
  for (uint64_t id = 1; id < 8; ++id) EXPECT_EQ(one.next().wr_id, id);
  ASSERT_EQ(ibv_resize_cq(one.cq, 1), 0);
  ASSERT_EQ(one.send(write_request(8, segment, other)), 0);
  EXPECT_EQ(one.next().wr_id, 8U);

  EXPECT_EQ(ibv_resize_cq(one.cq, 0), EINVAL);
  EXPECT_EQ(ibv_resize_cq(one.cq, -1), EINVAL);
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(one.context, &device), 0);
  EXPECT_EQ(ibv_resize_cq(one.cq, device.max_cqe + 1), EINVAL);
  EXPECT_EQ(one.cq->cqe, 1);
}

TEST_F(Transfer, AQueueDoesNotShrinkBelowWhatWaits) {
  ibv_sge segment = one.part(0, 10);
  // The send queue holds 16: when three more found room, three completions wait at least.
  for (uint64_t id = 0; id < 19;) {
    const int error = one.send(write_request(id, segment, other));
    ASSERT_TRUE(error == 0 || error == ENOMEM);
    if (error == 0) ++id;
  }
  EXPECT_EQ(ibv_resize_cq(one.cq, 2), EINVAL);
  EXPECT_EQ(one.cq->cqe, 64);
  for (uint64_t id = 0; id < 19; ++id) EXPECT_EQ(one.next().wr_id, id);
}

}  // namespace uroce::verbs_test
