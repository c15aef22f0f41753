#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "ends.h"

// UD by verbs.h: address handles, the 40 bytes before a message, groups.

namespace uroce::verbs_test {

namespace {

constexpr uint32_t kQkey = 0x11223344;
constexpr size_t kGrh = sizeof(ibv_grh);

ibv_gid gid_of(const End& end, uint8_t index = kGidIndex) {
  ibv_gid gid{};
  EXPECT_EQ(ibv_query_gid(end.context, 1, index, &gid), 0);
  return gid;
}

ibv_gid ipv4_group(uint8_t last) {
  ibv_gid gid{};
  const uint8_t bytes[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 239, 1, 2, last};
  std::memcpy(gid.raw, bytes, sizeof(bytes));
  return gid;
}

ibv_gid ipv6_group() {
  ibv_gid gid{};
  gid.raw[0] = 0xFF;
  gid.raw[1] = 0x0E;
  gid.raw[15] = 0x77;
  return gid;
}

ibv_ah_attr address_of(const ibv_gid& gid, uint8_t own_index = kGidIndex) {
  ibv_ah_attr attributes{};
  attributes.is_global = 1;
  attributes.port_num = 1;
  attributes.grh.dgid = gid;
  attributes.grh.sgid_index = own_index;
  attributes.grh.hop_limit = 1;
  return attributes;
}

void bring_up(const End& end, ibv_qp* qp = nullptr) {
  if (qp == nullptr) qp = end.qp;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  attributes.qkey = kQkey;
  ASSERT_EQ(ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
  attributes.qp_state = IBV_QPS_RTR;
  ASSERT_EQ(ibv_modify_qp(qp, &attributes, IBV_QP_STATE), 0);
  attributes.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

}  // namespace

class Datagrams : public ::testing::Test {
 protected:
  Datagrams() {
    bring_up(one);
    bring_up(other);
  }

  /// An address handle of `one`.
  ibv_ah* way_to(const ibv_gid& gid, uint8_t own_index = kGidIndex) const {
    ibv_ah_attr attributes = address_of(gid, own_index);
    ibv_ah* ah = ibv_create_ah(one.pd, &attributes);
    EXPECT_NE(ah, nullptr);
    return ah;
  }
  static ibv_send_wr to(ibv_ah* ah, uint32_t number, uint64_t id, ibv_sge& segment) {
    ibv_send_wr request = send_request(id, segment);
    request.wr.ud = {ah, number, kQkey};
    return request;
  }
  /// From `from` to `gid` by way of a handle of the moment.
  void send(const ibv_gid& gid, uint32_t number, size_t bytes, uint8_t own_index = kGidIndex) {
    ibv_ah* ah = way_to(gid, own_index);
    ibv_sge segment = one.part(0, bytes);
    ASSERT_EQ(one.send(to(ah, number, 1, segment)), 0);
    EXPECT_EQ(ibv_destroy_ah(ah), 0) << "what is posted does not need it any more";
    EXPECT_EQ(one.next().status, IBV_WC_SUCCESS);
  }

  End one{device_at(0), {.type = IBV_QPT_UD}};
  End other{device_at(1), {.type = IBV_QPT_UD}};
};

TEST_F(Datagrams, AMessageComesWithItsHeaderAndCanBeAnswered) {
  one.fill(1);
  for (const uint8_t index : {uint8_t{0}, kGidIndex}) {
    ASSERT_EQ(other.receive(9, other.part(0, 2048)), 0);
    send(gid_of(other, index), other.qp->qp_num, 1000, index);
    ibv_wc received = other.next();
    EXPECT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.wr_id, 9U);
    EXPECT_EQ(received.byte_len, 1000U + kGrh);
    EXPECT_EQ(received.wc_flags, static_cast<unsigned int>(IBV_WC_GRH));
    EXPECT_EQ(received.src_qp, one.qp->qp_num);
    EXPECT_EQ(received.qp_num, other.qp->qp_num);
    EXPECT_EQ(received.sl, index == 0 ? 0x9 : 0xA) << "RoCE v2 by IPv6 or IPv4";
    EXPECT_TRUE(std::equal(&one.memory[0], &one.memory[1000], &other.memory[kGrh]));

    auto* grh = reinterpret_cast<ibv_grh*>(other.memory.data());
    ibv_ah_attr back{};
    ASSERT_EQ(ibv_init_ah_from_wc(other.context, 1, &received, grh, &back), 0);
    const ibv_gid sender = gid_of(one, index);
    EXPECT_EQ(std::memcmp(&back.grh.dgid, &sender, sizeof(sender)), 0);
    EXPECT_EQ(back.grh.sgid_index, index);
    EXPECT_EQ(back.is_global, 1);
    EXPECT_EQ(back.sl, 0);

    ibv_ah* ah = ibv_create_ah_from_wc(other.pd, &received, grh, 1);
    ASSERT_NE(ah, nullptr);
    ASSERT_EQ(one.receive(7, one.part(4096, 2048)), 0);
    ibv_sge segment = other.part(8192, 10);
    ibv_send_wr answer = to(ah, received.src_qp, 3, segment);
    answer.opcode = IBV_WR_SEND_WITH_IMM;
    answer.imm_data = 0x01020304;
    ASSERT_EQ(other.send(answer), 0);
    const ibv_wc answered = one.next();
    EXPECT_EQ(answered.wr_id, 7U);
    EXPECT_EQ(answered.wc_flags, unsigned{IBV_WC_GRH} | unsigned{IBV_WC_WITH_IMM});
    EXPECT_EQ(answered.imm_data, 0x01020304U);
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
    EXPECT_EQ(other.next().wr_id, 3U);
  }
}

TEST_F(Datagrams, WithoutAHeaderThereIsNoPeerToAnswer) {
  ibv_wc completion{};
  ibv_grh grh{};
  ibv_ah_attr attributes{};
  EXPECT_EQ(ibv_init_ah_from_wc(one.context, 1, &completion, &grh, &attributes), -1);
  EXPECT_EQ(errno, EINVAL);
  completion.wc_flags = IBV_WC_GRH;
  errno = 0;
  EXPECT_EQ(ibv_create_ah_from_wc(one.pd, &completion, &grh, 1), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Datagrams, OneQueuePairSendsToMany) {
  End third(device_at(1), {.type = IBV_QPT_UD});
  bring_up(third);
  ASSERT_EQ(other.receive(1, other.all()), 0);
  ASSERT_EQ(third.receive(2, third.all()), 0);
  ASSERT_EQ(one.receive(3, one.part(8192, 4096)), 0);
  send(gid_of(other), other.qp->qp_num, 10);
  send(gid_of(other), third.qp->qp_num, 20);
  EXPECT_EQ(other.next().byte_len, 10U + kGrh);
  EXPECT_EQ(third.next().byte_len, 20U + kGrh);
  // To itself.
  ibv_ah* ah = way_to(gid_of(one));
  ibv_sge segment = one.part(0, 30);
  ASSERT_EQ(one.send(to(ah, one.qp->qp_num, 4, segment)), 0);
  EXPECT_EQ(one.next().wr_id + one.next().wr_id, 7U);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

TEST_F(Datagrams, AWrongQkeyIsDroppedAndOurOwnMayBeAsked) {
  ASSERT_EQ(other.receive(1, other.all()), 0);
  ibv_ah* ah = way_to(gid_of(other));
  ibv_sge segment = one.part(0, 5);
  ibv_send_wr request = to(ah, other.qp->qp_num, 1, segment);
  request.wr.ud.remote_qkey = kQkey + 1;
  ASSERT_EQ(one.send(request), 0);
  EXPECT_EQ(one.next().status, IBV_WC_SUCCESS);
  request.wr.ud.remote_qkey = 0x80000000U;
  segment.length = 6;
  ASSERT_EQ(one.send(request), 0);
  EXPECT_EQ(one.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(other.next().byte_len, 6U + kGrh) << "the first one was lost";
  EXPECT_EQ(ibv_destroy_ah(ah), 0);

  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ASSERT_EQ(ibv_query_qp(one.qp, &attributes, IBV_QP_QKEY, &initial), 0);
  EXPECT_EQ(attributes.qkey, kQkey);
  EXPECT_EQ(initial.qp_type, IBV_QPT_UD);
}

TEST_F(Datagrams, AMessageIsNoLongerThanThePortsMtu) {
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(one.context, 1, &port), 0);
  const size_t mtu = 128U << port.active_mtu;
  ASSERT_EQ(other.receive(1, other.all()), 0);
  send(gid_of(other), other.qp->qp_num, mtu);
  EXPECT_EQ(other.next().byte_len, mtu + kGrh);

  ibv_ah* ah = way_to(gid_of(other));
  ibv_sge segment = one.part(0, mtu + 1);
  ASSERT_EQ(one.send(to(ah, other.qp->qp_num, 2, segment)), 0);
  EXPECT_EQ(one.next().status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(one.state(), IBV_QPS_SQE);
  ibv_qp_attr again{};
  again.qp_state = IBV_QPS_RTS;
  EXPECT_EQ(ibv_modify_qp(one.qp, &again, IBV_QP_STATE), 0);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

TEST_F(Datagrams, RequestsThatCannotBeAreRefused) {
  ibv_ah* ah = way_to(gid_of(other));
  ibv_sge segment = one.part(0, 8);
  const auto refusal = [&](auto change) {
    ibv_send_wr request = to(ah, other.qp->qp_num, 1, segment);
    change(request);
    return one.send(request);
  };
  EXPECT_EQ(refusal([](auto& r) { r.wr.ud.ah = nullptr; }), EINVAL);
  EXPECT_EQ(refusal([](auto& r) { r.wr.ud.remote_qpn = 1U << 24; }), EINVAL);
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
                                     IBV_WR_SEND_WITH_INV, IBV_WR_LOCAL_INV})
    EXPECT_EQ(refusal([&](auto& r) { r.opcode = opcode; }), EINVAL) << opcode;
  ibv_pd* second = ibv_alloc_pd(one.context);
  ibv_ah_attr attributes = address_of(gid_of(other));
  ibv_ah* foreign = ibv_create_ah(second, &attributes);
  ASSERT_NE(foreign, nullptr);
  EXPECT_EQ(refusal([&](auto& r) { r.wr.ud.ah = foreign; }), EINVAL) << "of another domain";
  EXPECT_EQ(ibv_dealloc_pd(second), EBUSY);
  EXPECT_EQ(ibv_destroy_ah(foreign), 0);
  EXPECT_EQ(ibv_dealloc_pd(second), 0);
  EXPECT_TRUE(one.nothing_to_poll());
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

TEST_F(Datagrams, AddressesThatLeadNowhereAreRefused) {
  const auto refusal = [&](auto change) {
    ibv_ah_attr attributes = address_of(gid_of(other));
    change(attributes);
    errno = 0;
    ibv_ah* const ah = ibv_create_ah(one.pd, &attributes);
    if (ah == nullptr) return errno;
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
    return 0;
  };
  EXPECT_EQ(refusal([](auto& a) { a.is_global = 0; }), EINVAL);
  EXPECT_EQ(refusal([](auto& a) { a.port_num = 2; }), EINVAL);
  EXPECT_EQ(refusal([](auto& a) { a.grh.sgid_index = 200; }), EINVAL);
  EXPECT_EQ(refusal([](auto& a) { a.grh.sgid_index = 0; }), EINVAL) << "of another kind";
  EXPECT_EQ(refusal([](auto& a) { a.grh.dgid = {}; }), EINVAL);
  EXPECT_EQ(refusal([](auto& a) { a.sl = 8; }), EINVAL);
  EXPECT_EQ(refusal([](auto& a) { a.sl = 0x8A; }), EINVAL);
  EXPECT_EQ(refusal([](auto& a) { a.sl = 0x7A; }), 0) << "as a completion said";
  EXPECT_EQ(refusal([](auto& a) { a.grh.dgid.raw[12] = 10; }), EHOSTUNREACH);
}

TEST_F(Datagrams, DescribedByTheExtendedInterface) {
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq = wanted.recv_cq = one.cq;
  wanted.cap = {4, 4, 2, 2, 32};
  wanted.qp_type = IBV_QPT_UD;
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  wanted.pd = one.pd;
  wanted.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE;
  errno = 0;
  EXPECT_EQ(ibv_create_qp_ex(one.context, &wanted), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  wanted.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  ibv_qp* made = ibv_create_qp_ex(one.context, &wanted);
  ASSERT_NE(made, nullptr);
  bring_up(one, made);
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(made);
  ibv_ah* ah = way_to(gid_of(other));
  const ibv_sge from = one.part(0, 8);
  const auto describe = [&](bool with_address) {
    qp->wr_id = 1;
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send_imm(qp, 0x0A0B0C0D);
    if (with_address) ibv_wr_set_ud_addr(qp, ah, other.qp->qp_num, kQkey);
    ibv_wr_set_sge(qp, from.lkey, from.addr, from.length);
  };
  // Where it goes must be said of each request.
  ibv_wr_start(qp);
  describe(false);
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);
  ibv_wr_start(qp);
  describe(false);
  describe(true);
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);
  ibv_wr_start(qp);
  describe(true);
  ibv_wr_set_ud_addr(qp, nullptr, 1, 1);
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);

  ASSERT_EQ(other.receive(5, other.all()), 0);
  ibv_wr_start(qp);
  describe(true);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  EXPECT_EQ(one.next().status, IBV_WC_SUCCESS);
  const ibv_wc received = other.next();
  EXPECT_EQ(received.imm_data, 0x0A0B0C0DU);
  EXPECT_EQ(received.src_qp, made->qp_num);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
  EXPECT_EQ(ibv_destroy_qp(made), 0);
}

TEST_F(Datagrams, AGroupsMessageReachesAllItsMembersOnBothDevices) {
  End third(device_at(1), {.type = IBV_QPT_UD});
  End beside(device_at(0), {.type = IBV_QPT_UD});
  bring_up(third);
  bring_up(beside);
  one.fill(5);
  for (const auto& [group, index] :
       {std::pair{ipv4_group(1), kGidIndex}, std::pair{ipv6_group(), uint8_t{0}}}) {
    for (const End* member : {&other, &third, &beside}) {
      ASSERT_EQ(ibv_attach_mcast(member->qp, &group, 0), 0);
      EXPECT_EQ(ibv_attach_mcast(member->qp, &group, 0), 0) << "once more is no more";
      ASSERT_EQ(member->receive(1, member->all()), 0);
      ASSERT_EQ(member->receive(2, member->all()), 0);
    }
    ASSERT_EQ(one.receive(99, one.part(8192, 4096)), 0);
    send(group, 0xFFFFFF, 500, index);
    for (const End* member : {&other, &third, &beside}) {
      ibv_wc received = member->next();
      EXPECT_EQ(received.wr_id, 1U);
      EXPECT_EQ(received.byte_len, 500U + kGrh);
      EXPECT_EQ(received.src_qp, one.qp->qp_num);
      EXPECT_TRUE(std::equal(&one.memory[0], &one.memory[500], &member->memory[kGrh]));
      ibv_ah_attr back{};
      const auto* grh = reinterpret_cast<const ibv_grh*>(member->memory.data());
      ASSERT_EQ(ibv_init_ah_from_wc(member->context, 1, &received, const_cast<ibv_grh*>(grh), &back), 0);
      EXPECT_EQ(back.grh.sgid_index, index);
    }
    EXPECT_TRUE(one.nothing_to_poll()) << "the sender is no member";
    // Now it is one, and the others no longer are.
    ASSERT_EQ(ibv_attach_mcast(one.qp, &group, 0), 0);
    for (const End* member : {&other, &third, &beside}) {
      EXPECT_EQ(ibv_detach_mcast(member->qp, &group, 0), 0);
      EXPECT_EQ(ibv_detach_mcast(member->qp, &group, 0), EINVAL);
    }
    ibv_ah* ah = way_to(group, index);
    ibv_sge segment = one.part(0, 10);
    ASSERT_EQ(one.send(to(ah, 0xFFFFFF, 1, segment)), 0);
    EXPECT_EQ(one.next().wr_id + one.next().wr_id, 100U);
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
    for (const End* member : {&other, &third, &beside}) EXPECT_TRUE(member->nothing_to_poll());
    ASSERT_EQ(ibv_detach_mcast(one.qp, &group, 0), 0);
    // The receives that are left serve the next round, and are the last of it.
    for (const End* member : {&other, &third, &beside}) {
      send(gid_of(*member), member->qp->qp_num, 1);
      EXPECT_EQ(member->next().wr_id, 2U);
    }
  }
}

TEST_F(Datagrams, MembershipHasRulesAndLimits) {
  const ibv_gid group = ipv4_group(9);
  const ibv_gid host = gid_of(other);
  EXPECT_EQ(ibv_attach_mcast(one.qp, &host, 0), EINVAL) << "no group";
  End connected(device_at(0), {});
  EXPECT_EQ(ibv_attach_mcast(connected.qp, &group, 0), EINVAL) << "of UD only";
  ASSERT_EQ(ibv_attach_mcast(one.qp, &group, 0), 0);
  EXPECT_EQ(ibv_destroy_qp(one.qp), EBUSY);
  ASSERT_EQ(ibv_detach_mcast(one.qp, &group, 0), 0);

  ibv_device_attr limits{};
  ASSERT_EQ(ibv_query_device(one.context, &limits), 0);
  int groups = 0;
  ibv_gid each = ipv6_group();
  const auto number = [&each](int n) {
    each.raw[13] = static_cast<uint8_t>(n >> 8);
    each.raw[14] = static_cast<uint8_t>(n);
  };
  for (number(0); ibv_attach_mcast(one.qp, &each, 0) == 0; number(++groups)) {
  }
  EXPECT_EQ(groups, limits.max_mcast_grp);
  for (int i = 0; i < groups; ++i) {
    number(i);
    ASSERT_EQ(ibv_detach_mcast(one.qp, &each, 0), 0);
  }
}

}  // namespace uroce::verbs_test
