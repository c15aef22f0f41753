#include <endian.h>

#include <cerrno>

#include "addressing.h"

// P_Keys 0xFFFF, 0x8001, 0x0002, 0x8003 of the one device, 0xFFFF, 0x0001, 0x0002, 0x8003 of the other.

namespace uroce::verbs_test {

namespace {

constexpr uint16_t kFullAndLimited = 1;
constexpr uint16_t kBothLimited = 2;
constexpr uint16_t kBothFull = 3;

/// A datagram of the one, which must not come, and one of the default partition behind it, which must.
bool arrives(uint16_t from_index, uint16_t to_index) {
  const End one(device_at(0), datagrams());
  const End other(device_at(1), datagrams());
  const End witness(device_at(0), datagrams());
  const End watched(device_at(1), datagrams());
  bring_up_datagrams(one, from_index);
  bring_up_datagrams(other, to_index);
  bring_up_datagrams(witness);
  bring_up_datagrams(watched);
  EXPECT_EQ(other.receive(1, other.part(0, 48)), 0);
  EXPECT_EQ(watched.receive(1, watched.part(0, 48)), 0);
  send_along(one, way(kIpv4Gid, gid_at(other, kIpv4Gid)), other);
  send_along(witness, way(kIpv4Gid, gid_at(watched, kIpv4Gid)), watched);
  EXPECT_EQ(watched.next().status, IBV_WC_SUCCESS);
  // The wire keeps the order, so what comes has come.
  ibv_wc completion{};
  if (ibv_poll_cq(other.cq, 1, &completion) == 0) return false;
  EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
  EXPECT_EQ(completion.pkey_index, to_index);
  return true;
}

}  // namespace

TEST(PartitionKeys, AreThoseOfTheConfiguration) {
  const uint16_t keys[] = {0xFFFF, 0x8001, 0x0002, 0x8003};
  ibv_context* const context = ibv_open_device(device_at(0));
  ibv_device_attr device{};
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_device(context, &device), 0);
  ASSERT_EQ(ibv_query_port(context, 1, &port), 0);
  EXPECT_EQ(device.max_pkeys, 4);
  EXPECT_EQ(port.pkey_tbl_len, 4);
  __be16 key = 0;
  for (int index = 0; index < 4; ++index) {
    ASSERT_EQ(ibv_query_pkey(context, 1, index, &key), 0);
    EXPECT_EQ(be16toh(key), keys[index]);
    EXPECT_EQ(ibv_get_pkey_index(context, 1, key), index);
  }
  EXPECT_EQ(ibv_query_pkey(context, 1, 4, &key), -1);
  EXPECT_EQ(ibv_query_pkey(context, 1, -1, &key), -1);
  EXPECT_EQ(ibv_get_pkey_index(context, 1, htobe16(0x0001)), -1) << "another membership is another key";
  EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(PartitionKeys, AnIndexBeyondTheTableIsRefused) {
  const End one(device_at(0), {});
  ibv_qp_attr init = init_attributes(0);
  init.pkey_index = 4;
  EXPECT_EQ(ibv_modify_qp(one.qp, &init, kInitMask), EINVAL);
  init.pkey_index = 3;
  ASSERT_EQ(ibv_modify_qp(one.qp, &init, kInitMask), 0);
  ibv_qp_attr now{};
  ibv_qp_init_attr initial{};
  ASSERT_EQ(ibv_query_qp(one.qp, &now, IBV_QP_PKEY_INDEX, &initial), 0);
  EXPECT_EQ(now.pkey_index, 3);
}

TEST(PartitionKeys, MembersOfAPartitionTalkUnlessBothAreLimited) {
  EXPECT_TRUE(arrives(0, 0));
  EXPECT_TRUE(arrives(kFullAndLimited, kFullAndLimited));
  EXPECT_TRUE(arrives(kBothFull, kBothFull));
  EXPECT_FALSE(arrives(kBothLimited, kBothLimited));
  EXPECT_FALSE(arrives(0, kBothFull));
  EXPECT_FALSE(arrives(kBothFull, 0));
}

TEST(PartitionKeys, OfAConnectionBothEndsMustShare) {
  for (const uint16_t index : {kFullAndLimited, kBothFull}) {
    End one(device_at(0), {});
    End other(device_at(1), {});
    ASSERT_EQ(bring_up(one, kIpv4Gid, other, kIpv4Gid, index), 0);
    ASSERT_EQ(bring_up(other, kIpv4Gid, one, kIpv4Gid, index), 0);
    ibv_sge segment = one.part(0, 3000);
    ASSERT_EQ(one.send(write_request(1, segment, other)), 0);
    EXPECT_EQ(one.next().status, IBV_WC_SUCCESS);
  }
  const End one(device_at(0), {});
  const End other(device_at(1), {});
  ASSERT_EQ(bring_up(one, kIpv4Gid, other, kIpv4Gid, kBothFull), 0);
  ASSERT_EQ(bring_up(other, kIpv4Gid, one, kIpv4Gid, 0), 0);
  ibv_sge segment = one.part(0, 8);
  ASSERT_EQ(one.send(write_request(1, segment, other)), 0);
  EXPECT_EQ(one.next().status, IBV_WC_RETRY_EXC_ERR);
}

}  // namespace uroce::verbs_test
