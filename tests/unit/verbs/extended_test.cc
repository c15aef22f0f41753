#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <vector>

#include "ends.h"

// The extended interfaces: ibv_wr_* for posting, ibv_start_poll and its relatives for polling.

namespace uroce::verbs_test {

/// Its own queue is not used by the queue pair of the fixture's first end: that one is made anew, extended.
class Extended : public Connected {
 protected:
  void SetUp() override {
    ibv_cq_init_attr_ex queue{};
    queue.cqe = 32;
    queue.wc_flags = uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                     IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
    cq = ibv_create_cq_ex(one.context, &queue);
    ASSERT_NE(cq, nullptr);
    wanted.send_cq = ibv_cq_ex_to_cq(cq);
    wanted.recv_cq = ibv_cq_ex_to_cq(cq);
    wanted.cap = {4, 4, 2, 2, 32};
    wanted.qp_type = IBV_QPT_RC;
    wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    wanted.pd = one.pd;
    wanted.send_ops_flags =
        IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ;
    ASSERT_EQ(ibv_destroy_qp(one.qp), 0);
    one.qp = ibv_create_qp_ex(one.context, &wanted);
    ASSERT_NE(one.qp, nullptr);
    qp = ibv_qp_to_qp_ex(one.qp);
    ASSERT_NE(qp, nullptr);
    ibv_qp_attr reset{};
    reset.qp_state = IBV_QPS_RESET;
    ASSERT_EQ(ibv_modify_qp(other.qp, &reset, IBV_QP_STATE), 0);
  }
  void TearDown() override {
    ASSERT_EQ(ibv_destroy_qp(one.qp), 0);
    one.qp = nullptr;
    EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
  }
  /// Waits for a completion and leaves the poll open.
  void start_poll() {
    ibv_poll_cq_attr none{};
    int result = ENOENT;
    while (result == ENOENT) result = ibv_start_poll(cq, &none);
    ASSERT_EQ(result, 0);
  }
  void write(uint64_t id, size_t bytes) {
    qp->wr_id = id;
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(qp, other.mr->rkey, reinterpret_cast<uintptr_t>(other.memory.data()));
    const ibv_sge from = one.part(0, bytes);
    ibv_wr_set_sge(qp, from.lkey, from.addr, from.length);
  }

  ibv_cq_ex* cq = nullptr;
  ibv_qp_init_attr_ex wanted{};
  ibv_qp_ex* qp = nullptr;
};

TEST_F(Extended, CompletionsSayWhenTheyHappened) {
  connect(one, other);
  const auto raw_clock = [&] {
    ibv_values_ex values{};
    values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
    EXPECT_EQ(ibv_query_rt_values_ex(one.context, &values), 0);
    return static_cast<uint64_t>(values.raw_clock.tv_sec) * 1'000'000'000 +
           static_cast<uint64_t>(values.raw_clock.tv_nsec);
  };
  const auto date = [] {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
  };
  const uint64_t before = raw_clock();
  const uint64_t date_before = date();
  uint64_t last = before;
  for (uint64_t id = 0; id < 3; ++id) {
    ibv_wr_start(qp);
    write(id, 10);
    ASSERT_EQ(ibv_wr_complete(qp), 0);
    start_poll();
    EXPECT_GE(ibv_wc_read_completion_ts(cq), last);
    last = ibv_wc_read_completion_ts(cq);
    EXPECT_LE(last, raw_clock());
    // The two clocks are read one after the other.
    EXPECT_GE(ibv_wc_read_completion_wallclock_ns(cq) + 1'000'000'000, date_before);
    EXPECT_LE(ibv_wc_read_completion_wallclock_ns(cq), date());
    ibv_end_poll(cq);
  }
}

TEST_F(Extended, AListIsDescribedPostedAndPolledOneByOne) {
  connect(one, other);
  one.fill(1);
  ASSERT_EQ(other.receive(9, other.part(1000, 100)), 0);
  ibv_wr_start(qp);
  write(1, 500);
  qp->wr_id = 2;
  ibv_wr_send_imm(qp, 0x11223344);
  uint8_t text[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  ibv_wr_set_inline_data(qp, text, sizeof(text));
  qp->wr_id = 3;
  ibv_wr_rdma_read(qp, other.mr->rkey, reinterpret_cast<uintptr_t>(other.memory.data()));
  const ibv_sge to[2] = {one.part(2000, 100), one.part(3000, 50)};
  ibv_wr_set_sge_list(qp, 2, to);
  ASSERT_EQ(ibv_wr_complete(qp), 0);

  const ibv_wc received = other.next();
  EXPECT_EQ(received.imm_data, 0x11223344U);
  EXPECT_TRUE(std::equal(text, text + sizeof(text), &other.memory[1000]));
  const ibv_wc_opcode opcodes[3] = {IBV_WC_RDMA_WRITE, IBV_WC_SEND, IBV_WC_RDMA_READ};
  for (uint64_t id = 1; id <= 3; ++id) {
    start_poll();
    EXPECT_EQ(cq->wr_id, id);
    EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_wc_read_opcode(cq), opcodes[id - 1]);
    EXPECT_EQ(ibv_wc_read_qp_num(cq), one.qp->qp_num);
    EXPECT_EQ(ibv_wc_read_wc_flags(cq), 0U);
    ibv_end_poll(cq);
  }
  EXPECT_TRUE(std::equal(&one.memory[0], &one.memory[500], &other.memory[0]));
  EXPECT_TRUE(std::equal(&one.memory[2000], &one.memory[2100], &other.memory[0]));
  EXPECT_TRUE(std::equal(&one.memory[3000], &one.memory[3050], &other.memory[100]));
}

TEST_F(Extended, OnePollMayTakeManyCompletions) {
  connect(one, other);
  ibv_wr_start(qp);
  for (uint64_t id = 0; id < 3; ++id) write(id, 8);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  uint64_t seen = 0;
  while (seen < 3) {
    start_poll();
    do EXPECT_EQ(cq->wr_id, seen++);
    while (ibv_next_poll(cq) == 0);
    ibv_end_poll(cq);
  }
  ibv_poll_cq_attr none{};
  EXPECT_EQ(ibv_start_poll(cq, &none), ENOENT);
}

TEST_F(Extended, AMistakeIsToldByCompleteAndNothingIsPosted) {
  connect(one, other);
  ibv_wr_start(qp);
  write(1, 8);
  qp->wr_id = 2;
  ibv_wr_rdma_write(qp, other.mr->rkey, 0);
  uint8_t long_text[33] = {};
  ibv_wr_set_inline_data(qp, long_text, sizeof(long_text));
  write(3, 8);
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);

  ibv_wr_start(qp);
  for (uint64_t id = 0; id < 5; ++id) write(id, 8);
  EXPECT_EQ(ibv_wr_complete(qp), ENOMEM) << "there is room for four";

  ibv_wr_start(qp);
  ibv_wr_send_tso(qp, nullptr, 0, 0);
  EXPECT_EQ(ibv_wr_complete(qp), EOPNOTSUPP);

  ibv_wr_start(qp);
  write(4, 8);
  ibv_wr_abort(qp);

  ibv_wr_start(qp);
  write(5, 8);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  start_poll();
  EXPECT_EQ(cq->wr_id, 5U) << "of all these it is the only one";
  EXPECT_EQ(ibv_next_poll(cq), ENOENT);
  ibv_end_poll(cq);
}

TEST_F(Extended, NothingIsPostedBeforeTheStateAllowsIt) {
  ibv_wr_start(qp);
  write(1, 8);
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);
}

TEST_F(Extended, UnknownWishesAreRefused) {
  const auto refusal_of_queue = [&](auto change) {
    ibv_cq_init_attr_ex queue{};
    queue.cqe = 8;
    change(queue);
    errno = 0;
    EXPECT_EQ(ibv_create_cq_ex(one.context, &queue), nullptr);
    return errno;
  };
  EXPECT_EQ(refusal_of_queue([](auto& q) { q.cqe = 0; }), EINVAL);
  EXPECT_EQ(refusal_of_queue([](auto& q) { q.comp_vector = 1; }), EINVAL);
  EXPECT_EQ(refusal_of_queue([](auto& q) { q.wc_flags = IBV_WC_EX_WITH_FLOW_TAG; }), EOPNOTSUPP);
  EXPECT_EQ(refusal_of_queue([](auto& q) { q.comp_mask = 1U << 20; }), EOPNOTSUPP);
  const auto refusal_of_pair = [&](auto change) {
    ibv_qp_init_attr_ex changed = wanted;
    change(changed);
    errno = 0;
    EXPECT_EQ(ibv_create_qp_ex(one.context, &changed), nullptr);
    return errno;
  };
  EXPECT_EQ(refusal_of_pair([](auto& q) { q.send_ops_flags |= IBV_QP_EX_WITH_TSO; }), EOPNOTSUPP);
  EXPECT_EQ(refusal_of_pair([](auto& q) { q.comp_mask |= IBV_QP_INIT_ATTR_XRCD; }), EINVAL);
  EXPECT_EQ(refusal_of_pair([](auto& q) { q.comp_mask &= ~unsigned{IBV_QP_INIT_ATTR_PD}; }), EINVAL);
}

}  // namespace uroce::verbs_test
