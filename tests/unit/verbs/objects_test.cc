#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <vector>

#include "ends.h"

// Misuse of the verbs that make and destroy objects: the errno that the man page names.

namespace uroce::verbs_test {

/// An integer: the macro ibv_reg_mr mixes its argument with another enumeration.
constexpr int kLocalWrite = IBV_ACCESS_LOCAL_WRITE;

class Objects : public ::testing::Test {
 protected:
  void SetUp() override {
    context = ibv_open_device(device_at(0));
    ASSERT_NE(context, nullptr);
    pd = ibv_alloc_pd(context);
    ASSERT_NE(pd, nullptr);
    cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
    ASSERT_NE(cq, nullptr);
    initial.send_cq = cq;
    initial.recv_cq = cq;
    initial.qp_type = IBV_QPT_RC;
    initial.cap = {8, 8, 2, 2, 32};
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    EXPECT_EQ(ibv_close_device(context), 0);
  }
  /// The errno of a refusal; 0 when there was none.
  int refusal() {
    errno = 0;
    ibv_qp* qp = ibv_create_qp(pd, &initial);
    if (qp == nullptr) return errno;
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    return 0;
  }

  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp_init_attr initial{};
};

TEST_F(Objects, CompletionQueueWantsASensibleSizeAndVector) {
  const auto refusal_of = [&](int entries, int vector) {
    errno = 0;
    EXPECT_EQ(ibv_create_cq(context, entries, nullptr, nullptr, vector), nullptr);
    return errno;
  };
  ibv_device_attr attributes{};
  ASSERT_EQ(ibv_query_device(context, &attributes), 0);
  EXPECT_EQ(refusal_of(0, 0), EINVAL);
  EXPECT_EQ(refusal_of(-1, 0), EINVAL);
  EXPECT_EQ(refusal_of(attributes.max_cqe + 1, 0), EINVAL);
  EXPECT_EQ(refusal_of(1, 1), EINVAL);
  EXPECT_EQ(refusal_of(1, -1), EINVAL);
}

TEST_F(Objects, QueuePairWithinTheLimitsOnly) {
  EXPECT_EQ(refusal(), 0);
  ibv_device_attr attributes{};
  ASSERT_EQ(ibv_query_device(context, &attributes), 0);
  const ibv_qp_cap good = initial.cap;
  initial.cap.max_send_wr = static_cast<uint32_t>(attributes.max_qp_wr) + 1;
  EXPECT_EQ(refusal(), EINVAL);
  initial.cap = good;
  initial.cap.max_recv_wr = static_cast<uint32_t>(attributes.max_qp_wr) + 1;
  EXPECT_EQ(refusal(), EINVAL);
  initial.cap = good;
  initial.cap.max_send_sge = static_cast<uint32_t>(attributes.max_sge) + 1;
  EXPECT_EQ(refusal(), EINVAL);
  initial.cap = good;
  initial.cap.max_recv_sge = static_cast<uint32_t>(attributes.max_sge) + 1;
  EXPECT_EQ(refusal(), EINVAL);
  initial.cap = good;
  // As libfabric looks for the limit.
  initial.cap.max_inline_data = 1;
  while (refusal() == 0) initial.cap.max_inline_data *= 2;
  EXPECT_EQ(refusal(), EINVAL);
  EXPECT_GE(initial.cap.max_inline_data, 64U);
  EXPECT_LT(initial.cap.max_inline_data, 1U << 20);
}

TEST_F(Objects, OtherTransportsAreNotThereAndNonsenseIsInvalid) {
  initial.qp_type = IBV_QPT_XRC_RECV;
  EXPECT_EQ(refusal(), EINVAL) << "it has an XRC domain";
  initial.qp_type = IBV_QPT_RAW_PACKET;
  EXPECT_EQ(refusal(), EOPNOTSUPP);
  initial.qp_type = static_cast<ibv_qp_type>(77);
  EXPECT_EQ(refusal(), EINVAL);
  initial.qp_type = IBV_QPT_RC;
  initial.send_cq = nullptr;
  EXPECT_EQ(refusal(), EINVAL);
}

TEST_F(Objects, QueuePairKeepsWhatItWasMadeOf) {
  initial.qp_context = &initial;
  initial.sq_sig_all = 1;
  ibv_qp* qp = ibv_create_qp(pd, &initial);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(qp->state, IBV_QPS_RESET);
  EXPECT_EQ(qp->qp_type, IBV_QPT_RC);
  EXPECT_EQ(qp->pd, pd);
  EXPECT_NE(qp->qp_num, 0U);
  ibv_qp_attr now{};
  ibv_qp_init_attr made{};
  ASSERT_EQ(ibv_query_qp(qp, &now, IBV_QP_STATE | IBV_QP_CAP, &made), 0);
  EXPECT_EQ(now.qp_state, IBV_QPS_RESET);
  EXPECT_EQ(made.qp_context, &initial);
  EXPECT_EQ(made.send_cq, cq);
  EXPECT_EQ(made.recv_cq, cq);
  EXPECT_EQ(made.sq_sig_all, 1);
  EXPECT_GE(made.cap.max_send_wr, 8U);
  EXPECT_GE(now.cap.max_inline_data, 32U);
  EXPECT_EQ(ibv_qp_to_qp_ex(qp), nullptr) << "it was not made for ibv_wr_*";
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(Objects, AnExtendedQueuePairIsMadeWhenItAsksForNothingMore) {
  ibv_qp_init_attr_ex extended{};
  extended.send_cq = cq;
  extended.recv_cq = cq;
  extended.cap = initial.cap;
  extended.qp_type = IBV_QPT_RC;
  extended.comp_mask = IBV_QP_INIT_ATTR_PD;
  extended.pd = pd;
  ibv_qp* qp = ibv_create_qp_ex(context, &extended);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  extended.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
  errno = 0;
  EXPECT_EQ(ibv_create_qp_ex(context, &extended), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(Objects, WhatIsInUseCannotBeDestroyed) {
  std::vector<uint8_t> memory(4096);
  ibv_mr* mr = ibv_reg_mr(pd, memory.data(), memory.size(), kLocalWrite);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);

  ibv_comp_channel* channel = ibv_create_comp_channel(context);
  ASSERT_NE(channel, nullptr);
  ibv_cq* heard = ibv_create_cq(context, 4, nullptr, channel, 0);
  ASSERT_NE(heard, nullptr);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), EBUSY);

  initial.recv_cq = heard;
  ibv_qp* qp = ibv_create_qp(pd, &initial);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(ibv_destroy_cq(cq), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(heard), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(heard), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

TEST_F(Objects, RegionsAreCheckedWhenTheyAreMade) {
  std::vector<uint8_t> memory(8192);
  const auto refusal_of = [&](void* at, size_t length, unsigned int access) {
    errno = 0;
    ibv_mr* mr = ibv_reg_mr_iova2(pd, at, length, 0x1000, access);
    if (mr == nullptr) return errno;
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    return 0;
  };
  EXPECT_EQ(refusal_of(memory.data(), memory.size(), IBV_ACCESS_REMOTE_WRITE), EINVAL)
      << "without local write";
  EXPECT_EQ(refusal_of(memory.data(), memory.size(), 1U << 15), EINVAL) << "unknown right";
  EXPECT_EQ(refusal_of(memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING),
            0);

  void* read_only = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(read_only, MAP_FAILED);
  EXPECT_EQ(refusal_of(read_only, 4096, IBV_ACCESS_LOCAL_WRITE), EFAULT);
  munmap(read_only, 4096);
  EXPECT_EQ(refusal_of(read_only, 4096, 0), EFAULT);
}

TEST_F(Objects, ARegionTellsItsKeys) {
  std::vector<uint8_t> memory(4096);
  ibv_mr* mr = ibv_reg_mr(pd, memory.data(), memory.size(), kLocalWrite);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->addr, memory.data());
  EXPECT_EQ(mr->length, memory.size());
  EXPECT_EQ(mr->pd, pd);
  EXPECT_EQ(mr->context, context);
  EXPECT_NE(mr->lkey, 0U);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

class Modify : public Objects {
 protected:
  void SetUp() override {
    Objects::SetUp();
    qp = ibv_create_qp(pd, &initial);
    ASSERT_NE(qp, nullptr);
    ASSERT_EQ(ibv_query_gid(context, 1, kGidIndex, &own), 0);
    to_self = rtr_attributes(context, qp->qp_num, own);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    Objects::TearDown();
  }
  void to_init() {
    ibv_qp_attr attributes = init_attributes(IBV_ACCESS_REMOTE_WRITE);
    ASSERT_EQ(ibv_modify_qp(qp, &attributes, kInitMask), 0);
    EXPECT_EQ(qp->state, IBV_QPS_INIT);
  }
  int rtr() { return ibv_modify_qp(qp, &to_self, kRtrMask); }

  ibv_qp* qp = nullptr;
  ibv_gid own{};
  ibv_qp_attr to_self{};
};

TEST_F(Modify, OnlyAlongTheStates) {
  EXPECT_EQ(rtr(), EINVAL) << "from RESET";
  ibv_qp_attr attributes = init_attributes(0);
  EXPECT_EQ(ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_PORT), EINVAL) << "attributes are missing";
  EXPECT_EQ(ibv_modify_qp(qp, &attributes, kInitMask | IBV_QP_SQ_PSN), EINVAL) << "one too many";
  EXPECT_EQ(ibv_modify_qp(qp, &attributes, kInitMask | (1 << 30)), EINVAL) << "no such attribute";
  EXPECT_EQ(qp->state, IBV_QPS_RESET);
  to_init();
  attributes.port_num = 2;
  EXPECT_EQ(ibv_modify_qp(qp, &attributes, kInitMask), EINVAL);
}

TEST_F(Modify, TheAddressMustLeadSomewhere) {
  to_init();
  const ibv_qp_attr good = to_self;
  to_self.ah_attr.is_global = 0;
  EXPECT_EQ(rtr(), EINVAL) << "no GRH on Ethernet";
  to_self = good;
  to_self.ah_attr.grh.sgid_index = 9;
  EXPECT_EQ(rtr(), EINVAL);
  to_self = good;
  to_self.ah_attr.grh.sgid_index = 0;
  EXPECT_EQ(rtr(), EINVAL) << "IPv6 to IPv4";
  to_self = good;
  to_self.ah_attr.grh.dgid = {};
  EXPECT_EQ(rtr(), EINVAL);
  to_self = good;
  to_self.ah_attr.grh.dgid.raw[12] = 224;
  EXPECT_EQ(rtr(), EINVAL) << "multicast";
  to_self = good;
  to_self.ah_attr.port_num = 0;
  EXPECT_EQ(rtr(), EINVAL);
  to_self = good;
  EXPECT_EQ(qp->state, IBV_QPS_INIT);
  EXPECT_EQ(rtr(), 0);
}

TEST_F(Modify, ValuesHaveBounds) {
  to_init();
  const ibv_qp_attr good = to_self;
  to_self.path_mtu = static_cast<ibv_mtu>(6);
  EXPECT_EQ(rtr(), EINVAL);
  to_self = good;
  to_self.path_mtu = static_cast<ibv_mtu>(0);
  EXPECT_EQ(rtr(), EINVAL);
  to_self = good;
  to_self.max_dest_rd_atomic = 17;
  EXPECT_EQ(rtr(), EINVAL);
  to_self = good;
  to_self.min_rnr_timer = 32;
  EXPECT_EQ(rtr(), EINVAL);
  to_self = good;
  to_self.dest_qp_num = 1U << 24;
  EXPECT_EQ(rtr(), EINVAL);
  to_self = good;
  ASSERT_EQ(rtr(), 0);
  const auto rts_with = [&](auto change) {
    ibv_qp_attr attributes = rts_attributes();
    change(attributes);
    return ibv_modify_qp(qp, &attributes, kRtsMask);
  };
  EXPECT_EQ(rts_with([](ibv_qp_attr& a) { a.timeout = 32; }), EINVAL);
  EXPECT_EQ(rts_with([](ibv_qp_attr& a) { a.retry_cnt = 8; }), EINVAL);
  EXPECT_EQ(rts_with([](ibv_qp_attr& a) { a.rnr_retry = 8; }), EINVAL);
  EXPECT_EQ(rts_with([](ibv_qp_attr& a) { a.max_rd_atomic = 129; }), EINVAL);
  EXPECT_EQ(rts_with([](ibv_qp_attr& a) { a.max_rd_atomic = 128; }), 0);
}

TEST_F(Modify, WhatWasSetIsToldBack) {
  to_init();
  to_self.ah_attr.grh.traffic_class = 0x68;
  ASSERT_EQ(rtr(), 0);
  ibv_qp_attr rts = rts_attributes();
  rts.timeout = 18;
  ASSERT_EQ(ibv_modify_qp(qp, &rts, kRtsMask), 0);
  EXPECT_EQ(qp->state, IBV_QPS_RTS);
  ibv_qp_attr now{};
  ibv_qp_init_attr made{};
  ASSERT_EQ(ibv_query_qp(qp, &now, -1, &made), 0);
  EXPECT_EQ(now.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(now.cur_qp_state, IBV_QPS_RTS);
  EXPECT_EQ(now.path_mtu, to_self.path_mtu);
  EXPECT_EQ(now.rq_psn, to_self.rq_psn);
  EXPECT_EQ(now.sq_psn, rts.sq_psn);
  EXPECT_EQ(now.dest_qp_num, qp->qp_num);
  EXPECT_EQ(now.qp_access_flags, static_cast<unsigned int>(IBV_ACCESS_REMOTE_WRITE));
  EXPECT_EQ(now.timeout, 18);
  EXPECT_EQ(now.retry_cnt, rts.retry_cnt);
  EXPECT_EQ(now.rnr_retry, rts.rnr_retry);
  EXPECT_EQ(now.min_rnr_timer, to_self.min_rnr_timer);
  EXPECT_EQ(now.max_rd_atomic, rts.max_rd_atomic);
  EXPECT_EQ(now.max_dest_rd_atomic, to_self.max_dest_rd_atomic);
  EXPECT_EQ(now.port_num, 1);
  EXPECT_EQ(now.ah_attr.is_global, 1);
  EXPECT_EQ(now.ah_attr.grh.sgid_index, kGidIndex);
  EXPECT_EQ(now.ah_attr.grh.traffic_class, 0x68);
  EXPECT_EQ(now.ah_attr.grh.dgid.global.interface_id, own.global.interface_id);
}

}  // namespace uroce::verbs_test
