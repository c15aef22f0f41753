#include <endian.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "ends.h"

extern "C" int ibv_query_gid_type(ibv_context* context, uint8_t port, unsigned int index, int* type);

namespace uroce::verbs_test {

TEST(DeviceList, ShowsTheConfiguredDevices) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(count, 2);
  EXPECT_EQ(list[2], nullptr);
  EXPECT_EQ(std::string(ibv_get_device_name(list[0])), "uroce0");
  EXPECT_EQ(std::string(ibv_get_device_name(list[1])), "uroce1");
  EXPECT_EQ(ibv_get_device_index(list[1]), 1);
  EXPECT_EQ(ibv_get_device_guid(list[0]), htobe64(0x000000FFFE000001)) << "known before it is opened";
  EXPECT_EQ(list[0]->node_type, IBV_NODE_CA);
  EXPECT_EQ(list[0]->transport_type, IBV_TRANSPORT_IB);
  EXPECT_EQ(std::string(list[0]->ibdev_path), "/sys/class/infiniband/uroce0");
  ibv_free_device_list(list);
  EXPECT_EQ(device_at(0), device_at(0)) << "a device stays where it is";
}

class OpenDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    context = ibv_open_device(device_at(0));
    ASSERT_NE(context, nullptr);
  }
  void TearDown() override { EXPECT_EQ(ibv_close_device(context), 0); }
  ibv_context* context = nullptr;
};

TEST_F(OpenDevice, AdvertisesOnlyWhatIsThere) {
  ibv_device_attr attributes{};
  ASSERT_EQ(ibv_query_device(context, &attributes), 0);
  EXPECT_EQ(attributes.phys_port_cnt, 1);
  EXPECT_NE(attributes.node_guid, 0U);
  EXPECT_EQ(attributes.node_guid, ibv_get_device_guid(context->device));
  EXPECT_EQ(attributes.atomic_cap, IBV_ATOMIC_GLOB);
  EXPECT_GT(attributes.max_srq, 0);  // srq_test
  EXPECT_GT(attributes.max_qp_wr, 0);
  EXPECT_NE(attributes.device_cap_flags & IBV_DEVICE_XRC, 0U);
  EXPECT_NE(attributes.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS, 0U);  // tests/unit/dv
}

TEST_F(OpenDevice, ExtendedAttributesRepeatThePlainOnesAndHonourTheSize) {
  ibv_device_attr plain{};
  ASSERT_EQ(ibv_query_device(context, &plain), 0);
  ibv_device_attr_ex extended{};
  ASSERT_EQ(ibv_query_device_ex(context, nullptr, &extended), 0);
  EXPECT_EQ(std::memcmp(&plain, &extended.orig_attr, sizeof(plain)), 0);
  EXPECT_EQ(extended.phys_port_cnt_ex, plain.phys_port_cnt);
  EXPECT_EQ(extended.odp_caps.general_caps, 0U);
  EXPECT_EQ(extended.completion_timestamp_mask, ~uint64_t{0});  // extended_test
  EXPECT_EQ(extended.hca_core_clock, 1'000'000U);

  // A program that knows a shorter structure gets no byte more.
  std::memset(static_cast<void*>(&extended), 0xAA, sizeof(extended));
  ASSERT_EQ(verbs_get_ctx(context)->query_device_ex(context, nullptr, &extended, sizeof(plain)), 0);
  EXPECT_EQ(extended.comp_mask, 0xAAAAAAAA);
}

TEST_F(OpenDevice, PortIsAnActiveEthernetPort) {
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(context, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.phys_state, 5);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(port.max_mtu, IBV_MTU_4096);
  EXPECT_GE(port.active_mtu, IBV_MTU_1024);
  EXPECT_EQ(port.max_msg_sz, 1U << 31);
  EXPECT_EQ(port.pkey_tbl_len, 1);
  EXPECT_EQ(port.gid_tbl_len, 2);
  EXPECT_EQ(port.flags & IBV_QPF_GRH_REQUIRED, IBV_QPF_GRH_REQUIRED);
  EXPECT_EQ(ibv_query_port(context, 0, &port), EINVAL);
  EXPECT_EQ(ibv_query_port(context, 2, &port), EINVAL);
}

TEST_F(OpenDevice, FirstGidIsLinkLocalAndTheAddressesFollow) {
  ibv_gid gid{};
  ASSERT_EQ(ibv_query_gid(context, 1, 0, &gid), 0);
  EXPECT_EQ(gid.global.subnet_prefix, htobe64(0xFE80000000000000));
  EXPECT_EQ(gid.global.interface_id, ibv_get_device_guid(context->device));
  ASSERT_EQ(ibv_query_gid(context, 1, 1, &gid), 0);
  const uint8_t mapped[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 192, 0, 2, 1};
  EXPECT_EQ(std::memcmp(gid.raw, mapped, sizeof(mapped)), 0);
  EXPECT_EQ(ibv_query_gid(context, 1, 2, &gid), -1);
  EXPECT_EQ(ibv_query_gid(context, 1, -1, &gid), -1);
  EXPECT_EQ(ibv_query_gid(context, 2, 0, &gid), -1);
}

TEST_F(OpenDevice, EveryGidIsRoceV2) {
  ibv_gid_entry entry{};
  ASSERT_EQ(ibv_query_gid_ex(context, 1, 1, &entry, 0), 0);
  EXPECT_EQ(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
  EXPECT_EQ(entry.gid_index, 1U);
  EXPECT_EQ(entry.port_num, 1U);
  EXPECT_NE(ibv_query_gid_ex(context, 1, 2, &entry, 0), 0);
  EXPECT_NE(ibv_query_gid_ex(context, 1, 0, &entry, 1), 0) << "unknown flag";
  int type = -1;
  ASSERT_EQ(ibv_query_gid_type(context, 1, 0, &type), 0);
  EXPECT_EQ(type, 1);
  EXPECT_EQ(ibv_query_gid_type(context, 1, 7, &type), -1);

  ibv_gid_entry entries[4];
  EXPECT_EQ(ibv_query_gid_table(context, entries, 4, 0), 2);
  EXPECT_EQ(entries[1].gid_index, 1U);
  EXPECT_LT(ibv_query_gid_table(context, entries, 1, 0), 0) << "no room for all";
}

TEST_F(OpenDevice, HasTheDefaultPkeyAndNoOther) {
  __be16 pkey = 0;
  ASSERT_EQ(ibv_query_pkey(context, 1, 0, &pkey), 0);
  EXPECT_EQ(pkey, 0xFFFF);
  EXPECT_EQ(ibv_get_pkey_index(context, 1, pkey), 0);
  EXPECT_EQ(ibv_query_pkey(context, 1, 1, &pkey), -1);
  EXPECT_EQ(ibv_get_pkey_index(context, 1, htobe16(0x1234)), -1);
}

TEST_F(OpenDevice, WhatIsNotThereFailsWithEopnotsupp) {
  ibv_alloc_dm_attr memory{.length = 4096, .log_align_req = 0, .comp_mask = 0};
  errno = 0;
  EXPECT_EQ(ibv_alloc_dm(context, &memory), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_counters_init_attr counters{};
  errno = 0;
  EXPECT_EQ(ibv_create_counters(context, &counters), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST(Names, EveryValueHasOneAndOthersAreUnknown) {
  for (int i = IBV_WC_SUCCESS; i <= IBV_WC_TM_RNDV_INCOMPLETE; ++i)
    EXPECT_STRNE(ibv_wc_status_str(static_cast<ibv_wc_status>(i)), "unknown");
  EXPECT_STREQ(ibv_wc_status_str(static_cast<ibv_wc_status>(31)), "unknown");
  EXPECT_STREQ(ibv_event_type_str(static_cast<ibv_event_type>(31)), "unknown");
  EXPECT_STRNE(ibv_event_type_str(IBV_EVENT_WQ_FATAL), "unknown");
  EXPECT_STREQ(ibv_port_state_str(IBV_PORT_ACTIVE), "active");
  EXPECT_STREQ(ibv_node_type_str(IBV_NODE_UNKNOWN), "unknown");
}

TEST(Rates, ConvertBothWays) {
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_100_GBPS), 40);
  EXPECT_EQ(mult_to_ibv_rate(2), IBV_RATE_5_GBPS);
  EXPECT_EQ(ibv_rate_to_mbps(IBV_RATE_5_GBPS), 5000);
  EXPECT_EQ(mbps_to_ibv_rate(2500), IBV_RATE_2_5_GBPS);
  EXPECT_EQ(mbps_to_ibv_rate(1), IBV_RATE_MAX);
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_MAX), -1);
}

}  // namespace uroce::verbs_test
