#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>

#include "ends.h"

// Every request that moves data, by ibv_wr_*, for each service that has it.

namespace uroce::verbs_test {

namespace {

constexpr __be32 kImmediate = 0x55667788;
constexpr uint32_t kQkey = 0x1234;
constexpr size_t kTarget = 4096;

constexpr uint64_t operations_of(ibv_qp_type type) {
  constexpr uint64_t kSends = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  constexpr uint64_t kWrites = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
  if (type == IBV_QPT_UD) return kSends;
  return kSends | kWrites | (type == IBV_QPT_RC ? uint64_t{IBV_QP_EX_WITH_RDMA_READ} : 0);
}

EndOptions options_of(ibv_qp_type type) {
  EndOptions options;
  options.type = type;
  options.operations = operations_of(type);
  return options;
}

/// Posts what `describe` builds and waits for it, and for the receive if there is one.
template <typename Describe>
void build(const End& end, const Describe& describe) {
  ibv_qp_ex* const qp = ibv_qp_to_qp_ex(end.qp);
  const ibv_sge from = end.part(0, 100);
  ibv_wr_start(qp);
  qp->wr_id = 1;
  qp->wr_flags = IBV_SEND_SIGNALED;
  describe(qp);
  ibv_wr_set_sge(qp, from.lkey, from.addr, from.length);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  EXPECT_EQ(end.next().status, IBV_WC_SUCCESS);
}

}  // namespace

class Builders : public ::testing::TestWithParam<ibv_qp_type> {
 protected:
  Builders() { connect(one, other); }

  /// The next completion of the other end has the opcode, and with `immediate` that.
  void expect_received(ibv_wc_opcode opcode, bool immediate) const {
    const ibv_wc received = other.next();
    EXPECT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.opcode, opcode);
    EXPECT_EQ((received.wc_flags & IBV_WC_WITH_IMM) != 0, immediate);
    if (immediate) {
      EXPECT_EQ(received.imm_data, kImmediate);
    }
  }

  End one{device_at(0), options_of(GetParam())};
  End other{device_at(1), options_of(GetParam())};
};

TEST_P(Builders, MakeEveryRequestOfTheService) {
  const uint32_t rkey = other.mr->rkey;
  const auto target = reinterpret_cast<uintptr_t>(other.memory.data()) + kTarget;
  one.fill(1);
  for (uint64_t id = 0; id < 4; ++id) ASSERT_EQ(other.receive(id, other.part(0, 100)), 0);
  build(one, [&](ibv_qp_ex* qp) { ibv_wr_rdma_write(qp, rkey, target); });
  build(one, [&](ibv_qp_ex* qp) { ibv_wr_rdma_write_imm(qp, rkey, target + 100, kImmediate); });
  expect_received(IBV_WC_RECV_RDMA_WITH_IMM, true);
  EXPECT_TRUE(std::equal(&one.memory[0], &one.memory[100], &other.memory[kTarget]));
  EXPECT_TRUE(std::equal(&one.memory[0], &one.memory[100], &other.memory[kTarget + 100]));
  build(one, [](ibv_qp_ex* qp) { ibv_wr_send(qp); });
  expect_received(IBV_WC_RECV, false);
  EXPECT_TRUE(std::equal(&one.memory[0], &one.memory[100], &other.memory[0]));
  build(one, [](ibv_qp_ex* qp) { ibv_wr_send_imm(qp, kImmediate); });
  expect_received(IBV_WC_RECV, true);
  if (GetParam() != IBV_QPT_RC) return;
  other.fill(9);
  build(one, [&](ibv_qp_ex* qp) { ibv_wr_rdma_read(qp, rkey, target); });
  EXPECT_TRUE(std::equal(&one.memory[0], &one.memory[100], &other.memory[kTarget]));
}

INSTANTIATE_TEST_SUITE_P(Service, Builders, ::testing::Values(IBV_QPT_RC, IBV_QPT_UC),
                         [](const auto& service) {
                           return std::string(service.param == IBV_QPT_RC ? "RC" : "UC");
                         });

TEST(BuildersOfDatagrams, MakeBothRequests) {
  const End one(device_at(0), options_of(IBV_QPT_UD));
  const End other(device_at(1), options_of(IBV_QPT_UD));
  for (const End* end : {&one, &other}) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = 1;
    attributes.qkey = kQkey;
    ASSERT_EQ(
        ibv_modify_qp(end->qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
    attributes.qp_state = IBV_QPS_RTR;
    ASSERT_EQ(ibv_modify_qp(end->qp, &attributes, IBV_QP_STATE), 0);
    attributes.qp_state = IBV_QPS_RTS;
    ASSERT_EQ(ibv_modify_qp(end->qp, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
  }
  ibv_gid gid{};
  ASSERT_EQ(ibv_query_gid(other.context, 1, kGidIndex, &gid), 0);
  ibv_ah_attr way = rtr_attributes(one.context, 0, gid).ah_attr;
  ibv_ah* const ah = ibv_create_ah(one.pd, &way);
  ASSERT_NE(ah, nullptr);
  for (const bool immediate : {false, true}) {
    ASSERT_EQ(other.receive(7, other.part(0, 140)), 0);
    build(one, [&](ibv_qp_ex* qp) {
      immediate ? ibv_wr_send_imm(qp, kImmediate) : ibv_wr_send(qp);
      ibv_wr_set_ud_addr(qp, ah, other.qp->qp_num, kQkey);
    });
    const ibv_wc received = other.next();
    EXPECT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.byte_len, 140u);
    EXPECT_EQ((received.wc_flags & IBV_WC_WITH_IMM) != 0, immediate);
  }
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

}  // namespace uroce::verbs_test
