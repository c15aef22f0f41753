#include <cerrno>

#include "addressing.h"

// Addresses that live in VLANs. The devices are those of meson.build.

namespace uroce::verbs_test {

namespace {

constexpr uint16_t kVlan = 7;

}  // namespace

TEST(Vlan, DevicesInDifferentOnesDoNotHearEachOther) {
  const End one(device_at(0), {});
  const End other(device_at(1), {});
  // The same network in VLANs 8 and 9: no host answers for the address.
  EXPECT_EQ(bring_up(one, kLonelyVlanGid, other, kLonelyVlanGid), ETIMEDOUT);
}

TEST(Vlan, AnAddressOutsideIsNotOnItsLink) {
  const End one(device_at(0), {});
  const End other(device_at(1), {});
  EXPECT_EQ(bring_up(one, kVlanIpv4Gid, other, kIpv4Gid), EHOSTUNREACH);
  const End third(device_at(0), {});
  EXPECT_EQ(bring_up(third, kIpv4Gid, other, kVlanIpv4Gid), EHOSTUNREACH);
}

TEST(Vlan, ADatagramTellsItsTagAndPriority) {
  const End one(device_at(0), datagrams());
  const End other(device_at(1), datagrams());
  ibv_cq_init_attr_ex wanted{};
  wanted.cqe = 8;
  wanted.wc_flags = IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_SL;
  ibv_cq_ex* const cq = ibv_create_cq_ex(other.context, &wanted);
  ASSERT_NE(cq, nullptr);
  ibv_qp_init_attr initial{};
  initial.send_cq = initial.recv_cq = ibv_cq_ex_to_cq(cq);
  initial.qp_type = IBV_QPT_UD;
  initial.cap = {4, 4, 1, 1, 0};
  ibv_qp* const qp = ibv_create_qp(other.pd, &initial);
  ASSERT_NE(qp, nullptr);
  bring_up_datagrams(one);
  {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = 1;
    attributes.qkey = kDatagramQkey;
    ASSERT_EQ(ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
              0);
    attributes.qp_state = IBV_QPS_RTR;
    ASSERT_EQ(ibv_modify_qp(qp, &attributes, IBV_QP_STATE), 0);
  }
  const struct {
    uint8_t gid;
    uint8_t priority;
    uint16_t tag;
  } kCases[] = {{kVlanIpv4Gid, 0, kVlan},
                {kVlanIpv4Gid, 3, 3 << 13 | kVlan},
                {kVlanIpv6Gid, 7, 7 << 13 | kVlan},
                {kIpv4Gid, 3, 0}};  // without a VLAN there is no tag, and so no priority
  for (const auto& [gid, priority, tag] : kCases) {
    ibv_sge segment = other.part(0, 48);
    ibv_recv_wr receive{};
    receive.sg_list = &segment;
    receive.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_recv(qp, &receive, &bad), 0);
    ibv_ah_attr attributes = way(gid, gid_at(other, gid));
    attributes.sl = priority;
    ibv_ah* const ah = ibv_create_ah(one.pd, &attributes);
    ASSERT_NE(ah, nullptr);
    ibv_sge from = one.part(0, 8);
    ibv_send_wr request = send_request(1, from);
    request.wr.ud = {.ah = ah, .remote_qpn = qp->qp_num, .remote_qkey = kDatagramQkey};
    ASSERT_EQ(one.send(request), 0);
    EXPECT_EQ(one.next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_destroy_ah(ah), 0);

    ibv_poll_cq_attr poll{};
    while (ibv_start_poll(cq, &poll) == ENOENT) {
    }
    EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_wc_read_cvlan(cq), tag);
    EXPECT_EQ(ibv_wc_read_sl(cq), tag >> 13 << 4 | (gid == kVlanIpv6Gid ? 0x9 : 0xA));
    ibv_end_poll(cq);
  }
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

}  // namespace uroce::verbs_test
