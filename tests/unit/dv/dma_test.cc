#include <gtest/gtest.h>
#include <infiniband/urocedv.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "ends.h"

// Bus addresses, DMA regions and the reserved L_Key, by nothing but the public headers.

extern "C" int urocedv_header_works_in_c(ibv_context* context);

namespace uroce::verbs_test {
namespace {

/// A queue pair that may use the reserved L_Key.
ibv_qp* create_privileged(ibv_pd* pd, ibv_qp_init_attr* plain) {
  ibv_qp_init_attr_ex wanted{};
  wanted.qp_context = plain->qp_context;
  wanted.send_cq = plain->send_cq;
  wanted.recv_cq = plain->recv_cq;
  wanted.cap = plain->cap;
  wanted.qp_type = plain->qp_type;
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
  wanted.pd = pd;
  urocedv_qp_init_attr more{};
  more.create_flags = UROCEDV_QP_CREATE_RESERVED_LKEY;
  return urocedv_create_qp(pd->context, &wanted, &more);
}

class Dma : public ::testing::Test {
 protected:
  explicit Dma(const EndOptions& options = {.signal_all = true})
      : one(device_at(0), options), other(device_at(1), options) {
    connect(one, other);
    one.fill(1);
    region = urocedv_get_dma_mr(one.pd, IBV_ACCESS_LOCAL_WRITE);
  }
  ~Dma() override {
    EXPECT_EQ(ibv_dereg_mr(region), 0);
    for (const auto& [bus, direction] : mapped)
      EXPECT_EQ(urocedv_dma_unmap_single(one.context, bus, kBytes, direction), 0);
  }

  /// The first kBytes of one's memory.
  uint64_t map(urocedv_dma_direction direction = UROCEDV_DMA_BIDIRECTIONAL) {
    const uint64_t bus = urocedv_dma_map_single(one.context, one.memory.data(), kBytes, direction);
    EXPECT_EQ(urocedv_dma_mapping_error(one.context, bus), 0);
    mapped.emplace_back(bus, direction);
    return bus;
  }
  ibv_wc_status write_from(uint64_t address, uint32_t lkey, uint32_t bytes = kBytes) {
    ibv_sge segment{address, bytes, lkey};
    EXPECT_EQ(one.send(write_request(1, segment, other)), 0);
    return one.next().status;
  }
  ibv_wc_status read_to(uint64_t address, uint32_t lkey) {
    ibv_sge segment{address, kBytes, lkey};
    EXPECT_EQ(one.send(read_request(1, segment, other)), 0);
    return one.next().status;
  }
  [[nodiscard]] bool same() const {
    return std::equal(one.memory.begin(), one.memory.begin() + kBytes, other.memory.begin());
  }

  static constexpr uint32_t kBytes = 10000;
  End one;
  End other;
  ibv_mr* region = nullptr;
  std::vector<std::pair<uint64_t, urocedv_dma_direction>> mapped;
};

TEST_F(Dma, WriteFromAndReadToABusAddress) {
  EXPECT_EQ(write_from(map(UROCEDV_DMA_TO_DEVICE), region->lkey), IBV_WC_SUCCESS);
  EXPECT_TRUE(same());
  other.fill(99);
  EXPECT_EQ(read_to(map(UROCEDV_DMA_FROM_DEVICE), region->lkey), IBV_WC_SUCCESS);
  EXPECT_TRUE(same());
}

TEST_F(Dma, ReceiveAtABusAddress) {
  other.fill(7);
  ASSERT_EQ(one.receive(1, {map(UROCEDV_DMA_FROM_DEVICE), kBytes, region->lkey}), 0);
  ibv_sge segment = other.part(0, kBytes);
  ASSERT_EQ(other.send(send_request(2, segment)), 0);
  EXPECT_EQ(one.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(other.next().status, IBV_WC_SUCCESS);
  EXPECT_TRUE(same());
}

TEST_F(Dma, AVirtualAddressIsNone) {
  map();
  EXPECT_EQ(write_from(reinterpret_cast<uintptr_t>(one.memory.data()), region->lkey), IBV_WC_LOC_PROT_ERR);
}

TEST_F(Dma, BeyondTheMappingIsNothing) {
  EXPECT_EQ(write_from(map() + 1, region->lkey), IBV_WC_LOC_PROT_ERR);
}

TEST_F(Dma, WhatTheDeviceMayOnlyReadItDoesNotWrite) {
  EXPECT_EQ(read_to(map(UROCEDV_DMA_TO_DEVICE), region->lkey), IBV_WC_LOC_PROT_ERR);
}

TEST_F(Dma, WhatTheDeviceMayOnlyWriteItDoesNotRead) {
  EXPECT_EQ(write_from(map(UROCEDV_DMA_FROM_DEVICE), region->lkey), IBV_WC_LOC_PROT_ERR);
}

TEST_F(Dma, AfterUnmappingNothingIsThere) {
  const uint64_t bus = map();
  ASSERT_EQ(urocedv_dma_unmap_single(one.context, bus, kBytes, UROCEDV_DMA_BIDIRECTIONAL), 0);
  mapped.clear();
  EXPECT_EQ(write_from(bus, region->lkey), IBV_WC_LOC_PROT_ERR);
}

TEST_F(Dma, ForPeersThereIsNoKey) {
  ibv_sge segment = other.part(0, 100);
  ibv_send_wr request = write_request(1, segment, one);
  request.wr.rdma.remote_addr = map();
  request.wr.rdma.rkey = region->rkey;
  ASSERT_EQ(other.send(request), 0);
  EXPECT_EQ(other.next().status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Dma, ARegionGivesNothingButLocalWrite) {
  for (const int access : {int{IBV_ACCESS_REMOTE_READ}, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
                           int{IBV_ACCESS_MW_BIND}, int{IBV_ACCESS_ZERO_BASED}, 1 << 30, -1}) {
    errno = 0;
    EXPECT_EQ(urocedv_get_dma_mr(one.pd, access), nullptr) << access;
    EXPECT_EQ(errno, EINVAL) << access;
  }
  ibv_mr* reads = urocedv_get_dma_mr(one.pd, 0);
  ASSERT_NE(reads, nullptr);
  EXPECT_EQ(read_to(map(), reads->lkey), IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(ibv_dereg_mr(reads), 0);
}

TEST_F(Dma, ADomainWithADmaRegionIsBusy) { EXPECT_EQ(ibv_dealloc_pd(one.pd), EBUSY); }

TEST_F(Dma, ListsAreMappedAsAWholeOrNotAtAll) {
  std::vector<urocedv_sg> list(3);
  for (size_t i = 0; i < list.size(); ++i)
    list[i] = {.address = one.memory.data() + i * 5000, .length = 3000, .dma_length = 0, .dma_address = 0};
  ASSERT_EQ(urocedv_dma_map_sg(one.context, list.data(), 3, UROCEDV_DMA_TO_DEVICE), 3);
  std::vector<ibv_sge> segments;
  for (const urocedv_sg& entry : list)
    segments.push_back({urocedv_sg_dma_address(&entry), urocedv_sg_dma_len(&entry), region->lkey});
  ibv_send_wr request = write_request(1, segments[0], other);
  request.num_sge = 3;
  ASSERT_EQ(one.send(request), 0);
  EXPECT_EQ(one.next().status, IBV_WC_SUCCESS);
  for (size_t i = 0; i < list.size(); ++i) {
    const auto from = one.memory.begin() + static_cast<ptrdiff_t>(i) * 5000;
    EXPECT_TRUE(std::equal(from, from + 3000, other.memory.begin() + static_cast<ptrdiff_t>(i) * 3000));
  }
  EXPECT_EQ(urocedv_dma_unmap_sg(one.context, list.data(), 3, UROCEDV_DMA_FROM_DEVICE), EINVAL);
  EXPECT_EQ(urocedv_dma_unmap_sg(one.context, list.data(), 3, UROCEDV_DMA_TO_DEVICE), 0);

  list[2].length = 0;
  errno = 0;
  EXPECT_EQ(urocedv_dma_map_sg(one.context, list.data(), 3, UROCEDV_DMA_TO_DEVICE), 0);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(urocedv_dma_map_sg(one.context, list.data(), 0, UROCEDV_DMA_TO_DEVICE), 0);
}

TEST_F(Dma, SyncWantsARangeOfTheMapping) {
  const uint64_t bus = map(UROCEDV_DMA_FROM_DEVICE);
  EXPECT_EQ(urocedv_dma_sync_single_for_cpu(one.context, bus + 10, 100, UROCEDV_DMA_FROM_DEVICE), 0);
  EXPECT_EQ(urocedv_dma_sync_single_for_device(one.context, bus, kBytes, UROCEDV_DMA_FROM_DEVICE), 0);
  EXPECT_EQ(urocedv_dma_sync_single_for_cpu(one.context, bus, kBytes + 1, UROCEDV_DMA_FROM_DEVICE), EINVAL);
  EXPECT_EQ(urocedv_dma_sync_single_for_device(one.context, bus, 1, UROCEDV_DMA_TO_DEVICE), EINVAL);
}

TEST_F(Dma, BadMappingsAreRefused) {
  const auto refusal = [&](void* address, size_t length, int direction) {
    errno = 0;
    const uint64_t bus =
        urocedv_dma_map_single(one.context, address, length, static_cast<urocedv_dma_direction>(direction));
    EXPECT_NE(urocedv_dma_mapping_error(one.context, bus), 0);
    return errno;
  };
  EXPECT_EQ(refusal(one.memory.data(), 0, UROCEDV_DMA_TO_DEVICE), EINVAL);
  EXPECT_EQ(refusal(one.memory.data(), SIZE_MAX, UROCEDV_DMA_TO_DEVICE), EINVAL);
  EXPECT_EQ(refusal(one.memory.data(), 1, 3), EINVAL);
  const uint64_t bus = map();
  EXPECT_EQ(urocedv_dma_unmap_single(one.context, bus, kBytes - 1, UROCEDV_DMA_BIDIRECTIONAL), EINVAL);
  EXPECT_EQ(urocedv_dma_unmap_single(one.context, bus, kBytes, UROCEDV_DMA_TO_DEVICE), EINVAL);
  const uint64_t page = urocedv_dma_map_page(one.context, one.memory.data(), 100, 50, UROCEDV_DMA_TO_DEVICE);
  EXPECT_EQ(write_from(page, region->lkey, 50), IBV_WC_SUCCESS);
  EXPECT_TRUE(std::equal(one.memory.begin() + 100, one.memory.begin() + 150, other.memory.begin()));
  EXPECT_EQ(urocedv_dma_unmap_page(one.context, page, 50, UROCEDV_DMA_TO_DEVICE), 0);
  EXPECT_EQ(urocedv_dma_unmap_page(one.context, page, 50, UROCEDV_DMA_TO_DEVICE), EINVAL);
}

TEST_F(Dma, DevicesOfOthersAreRefused) {
  ibv_device stranger{};
  ibv_context context{};
  context.device = &stranger;
  ibv_pd pd{};
  pd.context = &context;
  EXPECT_FALSE(urocedv_is_supported(&stranger));
  EXPECT_FALSE(urocedv_is_supported(nullptr));
  EXPECT_TRUE(urocedv_is_supported(one.context->device));
  urocedv_device_attr attributes{};
  EXPECT_EQ(urocedv_query_device(&context, &attributes), EOPNOTSUPP);
  EXPECT_EQ(urocedv_dma_map_single(&context, &pd, 1, UROCEDV_DMA_TO_DEVICE), UROCEDV_DMA_ERROR);
  EXPECT_EQ(urocedv_dma_unmap_single(&context, 1, 1, UROCEDV_DMA_TO_DEVICE), EOPNOTSUPP);
  errno = 0;
  EXPECT_EQ(urocedv_get_dma_mr(&pd, 0), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_qp_init_attr_ex wanted{};
  EXPECT_EQ(urocedv_create_qp(&context, &wanted, nullptr), nullptr);
  EXPECT_TRUE(urocedv_header_works_in_c(one.context));
}

TEST_F(Dma, TheReservedLKeyIsNotForEveryQueuePair) {
  urocedv_device_attr attributes{};
  ASSERT_EQ(urocedv_query_device(one.context, &attributes), 0);
  EXPECT_EQ(write_from(map(), attributes.reserved_lkey), IBV_WC_LOC_PROT_ERR);
  attributes.comp_mask = 1;
  EXPECT_EQ(urocedv_query_device(one.context, &attributes), EINVAL);
}

class ReservedLKey : public Dma {
 protected:
  ReservedLKey() : Dma({.signal_all = true, .create_qp = create_privileged}) {
    EXPECT_EQ(urocedv_query_device(one.context, &attributes), 0);
  }
  urocedv_device_attr attributes{};
};

TEST_F(ReservedLKey, ReadsAndWritesWhatIsMapped) {
  const uint64_t bus = map();
  EXPECT_EQ(write_from(bus, attributes.reserved_lkey), IBV_WC_SUCCESS);
  EXPECT_TRUE(same());
  other.fill(99);
  EXPECT_EQ(read_to(bus, attributes.reserved_lkey), IBV_WC_SUCCESS);
  EXPECT_TRUE(same());
  EXPECT_EQ(write_from(bus + kBytes, attributes.reserved_lkey), IBV_WC_LOC_PROT_ERR);
}

TEST_F(ReservedLKey, IsNoRKey) {
  ibv_sge segment = other.part(0, 100);
  ibv_send_wr request = write_request(1, segment, one);
  request.wr.rdma.remote_addr = map();
  request.wr.rdma.rkey = attributes.reserved_lkey;
  ASSERT_EQ(other.send(request), 0);
  EXPECT_EQ(other.next().status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(ReservedLKey, UnknownFlagsAreRefused) {
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq = wanted.recv_cq = one.cq;
  wanted.qp_type = IBV_QPT_RC;
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
  wanted.pd = one.pd;
  for (urocedv_qp_init_attr more : {urocedv_qp_init_attr{.comp_mask = 1, .create_flags = 0, .reserved = 0},
                                    urocedv_qp_init_attr{.comp_mask = 0, .create_flags = 2, .reserved = 0}}) {
    errno = 0;
    EXPECT_EQ(urocedv_create_qp(one.context, &wanted, &more), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
}

}  // namespace
}  // namespace uroce::verbs_test
