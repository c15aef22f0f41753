#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ends.h"

// The layouts that a program compiled against rdma-core 44 has built in. The library is compiled against
// whatever headers are installed; when they differ, this does not compile.

static_assert(sizeof(verbs_context) == 648 && sizeof(ibv_context) == 328 && sizeof(ibv_context_ops) == 256);
static_assert(offsetof(verbs_context, context) == 320 && offsetof(verbs_context, sz) == 312);
static_assert(offsetof(verbs_context, query_port) == 0 && offsetof(verbs_context, query_device_ex) == 216);
static_assert(offsetof(verbs_context, create_cq_ex) == 200 && offsetof(verbs_context, create_qp_ex) == 264);
static_assert(offsetof(ibv_context, ops.post_send) == 208 && offsetof(ibv_context, ops.post_recv) == 216);
static_assert(offsetof(ibv_context, ops.poll_cq) == 96 && offsetof(ibv_context, ops.req_notify_cq) == 104);
static_assert(offsetof(ibv_context, ops.post_srq_recv) == 168 && offsetof(ibv_context, abi_compat) == 320);
static_assert(sizeof(ibv_device) == 664 && sizeof(ibv_pd) == 16 && sizeof(ibv_mr) == 48);
static_assert(sizeof(ibv_qp) == 160 && sizeof(ibv_qp_ex) == 352 && sizeof(ibv_cq) == 128 &&
              sizeof(ibv_cq_ex) == 288);
static_assert(sizeof(ibv_srq) == 128 && sizeof(ibv_ah) == 24 && sizeof(ibv_mw) == 32 &&
              sizeof(ibv_comp_channel) == 16);
static_assert(sizeof(ibv_wc) == 48 && sizeof(ibv_send_wr) == 128 && sizeof(ibv_recv_wr) == 32);
static_assert(sizeof(ibv_port_attr) == 52 && sizeof(ibv_device_attr) == 232 &&
              sizeof(ibv_device_attr_ex) == 400);
static_assert(sizeof(ibv_qp_attr) == 144 && sizeof(ibv_qp_init_attr) == 64 &&
              sizeof(ibv_qp_init_attr_ex) == 136);
static_assert(sizeof(ibv_gid_entry) == 32 && sizeof(ibv_async_event) == 16);

namespace uroce::verbs_test {

TEST(Abi, APointerFollowsTheDeviceAsOtherProvidersLibrariesExpect) {
  // libmlx5 and libefa compare the pointer behind ibv_device with their own operations.
  const ibv_device* device = device_at(0);
  const void* operations = &operations;
  std::memcpy(&operations, reinterpret_cast<const std::byte*>(device) + 664, sizeof(operations));
  EXPECT_EQ(operations, nullptr);
  EXPECT_EQ(device->_ops._dummy1, nullptr);
  EXPECT_EQ(device->_ops._dummy2, nullptr);
}

TEST(Abi, AContextSaysThatItIsExtendedAndHowFar) {
  ibv_context* context = ibv_open_device(device_at(0));
  ASSERT_NE(context, nullptr);
  EXPECT_EQ(context->abi_compat, reinterpret_cast<void*>(UINTPTR_MAX));
  EXPECT_EQ(verbs_get_ctx(context)->sz, sizeof(verbs_context));
  EXPECT_EQ(context->cmd_fd, -1);
  EXPECT_GE(context->async_fd, 0);
  EXPECT_EQ(context->num_comp_vectors, 1);
  EXPECT_EQ(ibv_close_device(context), 0);
}

// Behind the macro of the same name is an exported function that older programs call with a shorter
// structure.
#undef ibv_query_port

TEST(Abi, TheExportedQueryPortWritesOnlyTheOldStructure) {
  ibv_context* context = ibv_open_device(device_at(0));
  ASSERT_NE(context, nullptr);
  unsigned char room[64];
  std::memset(room, 0xAA, sizeof(room));
  ASSERT_EQ(ibv_query_port(context, 1, reinterpret_cast<_compat_ibv_port_attr*>(room)), 0);
  for (size_t i = 48; i < sizeof(room); ++i) EXPECT_EQ(room[i], 0xAA) << "byte " << i;
  ibv_port_attr attributes{};
  std::memcpy(&attributes, room, 48);
  EXPECT_EQ(attributes.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(ibv_close_device(context), 0);
}

}  // namespace uroce::verbs_test
