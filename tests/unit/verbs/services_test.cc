#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>

#include "ends.h"

// What the services other than RC have of their own. The transport itself is tests/unit/qp.

namespace uroce::verbs_test {

class Unreliable : public Connected {
 protected:
  Unreliable() : Connected({.type = IBV_QPT_UC}) {}
};

TEST_F(Unreliable, MessagesAndWritesOfManyPacketsArrive) {
  one.fill(1);
  ASSERT_EQ(other.receive(7, other.part(0, 10000)), 0);
  ibv_sge segment = one.part(0, 10000);
  ASSERT_EQ(one.send(send_request(5, segment)), 0);
  EXPECT_EQ(one.next().status, IBV_WC_SUCCESS);
  const ibv_wc received = other.next();
  EXPECT_EQ(received.status, IBV_WC_SUCCESS);
  EXPECT_EQ(received.wr_id, 7U);
  EXPECT_EQ(received.byte_len, 10000U);
  EXPECT_TRUE(std::equal(one.memory.begin(), one.memory.begin() + 10000, other.memory.begin()));

  ASSERT_EQ(other.receive(8, other.part(0, 0)), 0);
  ibv_sge tail = one.part(20000, 5000);
  ibv_send_wr request = write_request(6, tail, other, 20000);
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.imm_data = 0x01020304;
  ASSERT_EQ(one.send(request), 0);
  const ibv_wc written = other.next();
  EXPECT_EQ(written.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(written.imm_data, 0x01020304U);
  EXPECT_TRUE(std::equal(&one.memory[20000], &one.memory[25000], &other.memory[20000]));
}

TEST_F(Unreliable, WhatWasSentToNoQueuePairIsComplete) {
  ibv_sge segment = one.part(0, 100);
  ASSERT_EQ(one.send(send_request(1, segment)), 0);  // nothing is posted there
  EXPECT_EQ(one.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(one.state(), IBV_QPS_RTS);
  EXPECT_TRUE(other.nothing_to_poll());
}

TEST_F(Unreliable, OperationsThatThePeerWouldHaveToAnswerAreRefused) {
  ibv_sge segment = one.part(0, 8);
  const auto refusal = [&](ibv_wr_opcode opcode) {
    ibv_send_wr request = write_request(1, segment, other);
    request.opcode = opcode;
    return one.send(request);
  };
  EXPECT_EQ(refusal(IBV_WR_RDMA_READ), EINVAL);
  EXPECT_EQ(refusal(IBV_WR_SEND_WITH_INV), EINVAL);
  EXPECT_TRUE(one.nothing_to_poll());
  EXPECT_EQ(one.state(), IBV_QPS_RTS);
}

TEST_F(Unreliable, AFailedSendEndsTheSendingUntilItIsTakenUpAgain) {
  ibv_sge good = one.part(0, 8);
  ibv_sge bad = good;
  bad.lkey ^= 1;
  ASSERT_EQ(one.send(send_request(1, bad)), 0);
  EXPECT_EQ(one.next().status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(one.state(), IBV_QPS_SQE);
  ASSERT_EQ(one.send(send_request(2, good)), 0);
  EXPECT_EQ(one.next().status, IBV_WC_WR_FLUSH_ERR);

  // Receiving goes on meanwhile.
  ASSERT_EQ(one.receive(3, one.all()), 0);
  ibv_sge theirs = other.part(0, 8);
  ASSERT_EQ(other.send(send_request(4, theirs)), 0);
  EXPECT_EQ(one.next().wr_id, 3U);

  ibv_qp_attr again{};
  again.qp_state = IBV_QPS_RTS;
  again.cur_qp_state = IBV_QPS_SQE;
  ASSERT_EQ(ibv_modify_qp(one.qp, &again, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
  ASSERT_EQ(other.receive(5, other.all()), 0);
  ASSERT_EQ(one.send(send_request(6, good)), 0);
  EXPECT_EQ(one.next().status, IBV_WC_SUCCESS);
  while (other.next().wr_id != 5U) {
  }
}

TEST_F(Unreliable, ItsTransitionsHaveAttributesOfTheirOwn) {
  ibv_qp_attr reset{};
  ASSERT_EQ(ibv_modify_qp(one.qp, &reset, IBV_QP_STATE), 0);
  one.to_init();
  ibv_gid gid{};
  ASSERT_EQ(ibv_query_gid(other.context, 1, kGidIndex, &gid), 0);
  ibv_qp_attr attributes = rtr_attributes(one.context, other.qp->qp_num, gid);
  EXPECT_EQ(ibv_modify_qp(one.qp, &attributes, kRtrMask), EINVAL) << "there are no READs to answer";
  ASSERT_EQ(ibv_modify_qp(one.qp, &attributes, kRtrMaskUc), 0);
  attributes = rts_attributes();
  EXPECT_EQ(ibv_modify_qp(one.qp, &attributes, kRtsMask), EINVAL) << "nor anything to retry";
  EXPECT_EQ(ibv_modify_qp(one.qp, &attributes, kRtsMaskUc), 0);
}

/// The operations that a queue pair made for ibv_wr_* may be asked for.
TEST_F(Unreliable, ExtendedQueuePairsAreMadeForWhatTheServiceHas) {
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq = wanted.recv_cq = one.cq;
  wanted.cap = {4, 4, 1, 1, 0};
  wanted.qp_type = IBV_QPT_UC;
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  wanted.pd = one.pd;
  for (const uint64_t flag : {IBV_QP_EX_WITH_RDMA_READ, IBV_QP_EX_WITH_SEND_WITH_INV}) {
    wanted.send_ops_flags = flag;
    errno = 0;
    EXPECT_EQ(ibv_create_qp_ex(one.context, &wanted), nullptr) << flag;
    EXPECT_EQ(errno, EOPNOTSUPP);
  }
  wanted.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                          IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_LOCAL_INV |
                          IBV_QP_EX_WITH_BIND_MW;
  ibv_qp* qp = ibv_create_qp_ex(one.context, &wanted);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

}  // namespace uroce::verbs_test
