#include <arpa/inet.h>

#include <cerrno>

#include "addressing.h"

// Several GIDs, and what an address says of the way: traffic class, hop limit, flow label. The devices are
// those of meson.build.

namespace uroce::verbs_test {

TEST(Gids, EachIsSourceAndDestination) {
  const struct {
    uint8_t one, other;
  } kPairs[] = {{0, 0},
                {kIpv4Gid, kIpv4Gid},
                {kIpv4Gid, kOtherIpv4Gid},
                {kOtherIpv4Gid, kIpv4Gid},
                {kOtherIpv4Gid, kOtherIpv4Gid},
                {kIpv6Gid, kIpv6Gid},
                {kIpv6Gid, kOtherIpv6Gid},
                {kOtherIpv6Gid, kIpv6Gid},
                {kOtherIpv6Gid, kOtherIpv6Gid},
                {kVlanIpv4Gid, kVlanIpv4Gid},
                {kVlanIpv6Gid, kVlanIpv6Gid}};
  for (const auto& [one_index, other_index] : kPairs) {
    SCOPED_TRACE(::testing::Message() << int{one_index} << " to " << int{other_index});
    End one(device_at(0), {});
    End other(device_at(1), {});
    expect_connection(one, one_index, other, other_index);
  }
}

TEST(Gids, EachLeadsBackToItsOwnDevice) {
  for (uint8_t index = 0; index <= kLonelyVlanGid; ++index) {
    SCOPED_TRACE(int{index});
    End one(device_at(0), {});
    End other(device_at(0), {});
    expect_connection(one, index, other, index);
  }
}

TEST(Gids, AnotherFamilyOrNoSuchIndexIsRefused) {
  const End one(device_at(0), {});
  const End other(device_at(1), {});
  EXPECT_EQ(bring_up(one, kIpv4Gid, other, kIpv6Gid), EINVAL);
  const End third(device_at(0), {});
  EXPECT_EQ(bring_up(third, kLonelyVlanGid + 1, other, kIpv4Gid), EINVAL);
}

TEST(PathMtu, BeyondThePortsIsRefused) {
  const End one(device_at(0), {});
  const End other(device_at(1), {});
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(one.context, 1, &port), 0);
  ASSERT_EQ(port.active_mtu, IBV_MTU_4096);
  one.to_init();
  ibv_qp_attr rtr = rtr_attributes(one.context, other.qp->qp_num, gid_at(other, kIpv4Gid));
  rtr.path_mtu = static_cast<ibv_mtu>(IBV_MTU_4096 + 1);
  EXPECT_EQ(ibv_modify_qp(one.qp, &rtr, kRtrMask), EINVAL);
  rtr.path_mtu = IBV_MTU_4096;
  EXPECT_EQ(ibv_modify_qp(one.qp, &rtr, kRtrMask), 0);
}

class AddressFields : public ::testing::TestWithParam<uint8_t> {};

TEST_P(AddressFields, OfAConnectionAreToldBack) {
  const End one(device_at(0), {});
  const End other(device_at(1), {});
  ibv_ah_attr attributes = way(GetParam(), gid_at(other, GetParam()));
  attributes.sl = 5;
  attributes.grh.traffic_class = 0xB9;
  attributes.grh.hop_limit = 17;
  attributes.grh.flow_label = 0xABCDE;
  ASSERT_EQ(bring_up(one, GetParam(), other, GetParam(), 0, &attributes), 0);
  ibv_qp_attr now{};
  ibv_qp_init_attr initial{};
  ASSERT_EQ(ibv_query_qp(one.qp, &now, IBV_QP_AV, &initial), 0);
  EXPECT_EQ(now.ah_attr.sl, 5);
  EXPECT_EQ(now.ah_attr.grh.traffic_class, 0xB9);
  EXPECT_EQ(now.ah_attr.grh.hop_limit, 17);
  EXPECT_EQ(now.ah_attr.grh.flow_label, 0xABCDEu);
  EXPECT_EQ(now.ah_attr.grh.sgid_index, GetParam());
  EXPECT_EQ(std::memcmp(&now.ah_attr.grh.dgid, &attributes.grh.dgid, sizeof(ibv_gid)), 0);
}

/// There are programs that set all bits of the flow label. What does not fit into the header is left out.
TEST_P(AddressFields, AFlowLabelIsCutToItsTwentyBits) {
  const End one(device_at(0), {});
  const End other(device_at(1), {});
  ibv_ah_attr attributes = way(GetParam(), gid_at(other, GetParam()));
  attributes.grh.flow_label = 0xFFFFFFFF;
  EXPECT_EQ(bring_up(one, GetParam(), other, GetParam(), 0, &attributes), 0);

  const End sender(device_at(0), datagrams());
  const End receiver(device_at(1), datagrams());
  bring_up_datagrams(sender);
  bring_up_datagrams(receiver);
  ASSERT_EQ(receiver.receive(1, receiver.part(0, 48)), 0);
  send_along(sender, attributes, receiver);
  ASSERT_EQ(receiver.next().status, IBV_WC_SUCCESS);
  if (GetParam() == kOtherIpv4Gid) return;
  uint32_t word = 0;
  std::memcpy(&word, receiver.memory.data(), sizeof(word));
  EXPECT_EQ(ntohl(word), 0x600FFFFFu);
}

TEST_P(AddressFields, OfADatagramStandInItsHeader) {
  const End one(device_at(0), datagrams());
  const End other(device_at(1), datagrams());
  bring_up_datagrams(one);
  bring_up_datagrams(other);
  ASSERT_EQ(other.receive(1, other.part(0, 48)), 0);
  ibv_ah_attr attributes = way(GetParam(), gid_at(other, GetParam()));
  attributes.grh.traffic_class = 0xB9;  // a DSCP, and ECT(1)
  attributes.grh.hop_limit = 17;
  attributes.grh.flow_label = 0xABCDE;
  send_along(one, attributes, other);
  const ibv_wc received = other.next();
  ASSERT_EQ(received.status, IBV_WC_SUCCESS);
  const bool ipv4 = GetParam() == kOtherIpv4Gid;
  const uint8_t* const header = other.memory.data() + (ipv4 ? 20 : 0);
  if (ipv4) {
    EXPECT_EQ(header[1], 0xB9);
    EXPECT_EQ(header[8], 17);
  } else {
    uint32_t word = 0;
    std::memcpy(&word, header, sizeof(word));
    EXPECT_EQ(ntohl(word), 0x6B9ABCDEu);
    EXPECT_EQ(header[7], 17);
  }

  // The answer goes back the same way.
  ibv_wc completion = received;
  ibv_grh grh = header_of(other);
  ibv_ah_attr back{};
  ASSERT_EQ(ibv_init_ah_from_wc(other.context, 1, &completion, &grh, &back), 0);
  const ibv_gid resolver = gid_at(one, GetParam());
  EXPECT_EQ(std::memcmp(&back.grh.dgid, &resolver, sizeof(resolver)), 0);
  EXPECT_EQ(back.grh.sgid_index, GetParam());
  EXPECT_EQ(back.grh.traffic_class, 0xB9);
  EXPECT_EQ(back.grh.flow_label, ipv4 ? 0u : 0xABCDEu);
  ibv_ah* const answer = ibv_create_ah_from_wc(other.pd, &completion, &grh, 1);
  ASSERT_NE(answer, nullptr);
  EXPECT_EQ(ibv_destroy_ah(answer), 0);
  ASSERT_EQ(one.receive(2, one.part(0, 48)), 0);
  send_along(other, back, one);
  EXPECT_EQ(one.next().status, IBV_WC_SUCCESS);
}

INSTANTIATE_TEST_SUITE_P(Family, AddressFields, ::testing::Values(kOtherIpv4Gid, kOtherIpv6Gid),
                         [](const auto& gid) {
                           return std::string(gid.param == kOtherIpv4Gid ? "Ipv4" : "Ipv6");
                         });

}  // namespace uroce::verbs_test
