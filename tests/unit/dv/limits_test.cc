// What the device says about registrations, and what memory and work requests beside ibv_wr_* are for.
#include <gtest/gtest.h>
#include <infiniband/urocedv.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "ends.h"

namespace uroce::verbs_test {
namespace {

constexpr uint32_t kPage = 4096;
constexpr uint64_t kIova = 0x5000000000;

TEST(Limits, OfFmrs_ExpectWhatThereIs) {
  const End end{device_at(0), {}};
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(end.context, &device), 0);
  EXPECT_EQ(device.max_fmr, device.max_mr);
  EXPECT_GT(device.max_fmr, 0);
  ASSERT_GT(device.max_map_per_fmr, 0);
  // One can be had with so many mappings, and none with more.
  urocedv_fmr_attr wanted{
      .max_pages = 1, .max_maps = static_cast<uint32_t>(device.max_map_per_fmr), .page_shift = 12};
  urocedv_fmr* fmr = urocedv_alloc_fmr(end.pd, 0, &wanted);
  ASSERT_NE(fmr, nullptr);
  EXPECT_EQ(urocedv_dealloc_fmr(fmr), 0);
  ++wanted.max_maps;
  EXPECT_EQ(urocedv_alloc_fmr(end.pd, 0, &wanted), nullptr);
}

TEST(Limits, OfMappings_ExpectThemCountedAndAligned) {
  const End end{device_at(0), {}};
  const std::unique_ptr<uint8_t, decltype(&std::free)> memory{
      static_cast<uint8_t*>(std::aligned_alloc(kPage, size_t{1} << 21)), &std::free};
  for (const uint64_t length : {uint64_t{1}, uint64_t{kPage}, uint64_t{1} << 16, uint64_t{1} << 21}) {
    urocedv_dma_attr before{.comp_mask = 0, .length = length};
    ASSERT_EQ(urocedv_query_dma(end.context, &before), 0);
    EXPECT_EQ(before.max_length, uint64_t{1} << 46);
    EXPECT_EQ(before.max_mappings, (1u << 22) - 1);
    EXPECT_GE(before.alignment, std::max<uint64_t>(length, kPage));
    std::vector<uint64_t> bus;
    for (int i = 0; i < 5; ++i)
      bus.push_back(urocedv_dma_map_single(end.context, memory.get(), length, UROCEDV_DMA_BIDIRECTIONAL));
    urocedv_dma_attr now{.comp_mask = 0, .length = length};
    ASSERT_EQ(urocedv_query_dma(end.context, &now), 0);
    EXPECT_EQ(now.mappings, before.mappings + 5);
    for (const uint64_t address : bus) {
      EXPECT_EQ(address % before.alignment, 0u);
      EXPECT_EQ(urocedv_dma_unmap_single(end.context, address, length, UROCEDV_DMA_BIDIRECTIONAL), 0);
    }
    ASSERT_EQ(urocedv_query_dma(end.context, &now), 0);
    EXPECT_EQ(now.mappings, before.mappings);
  }
  for (urocedv_dma_attr wrong : {urocedv_dma_attr{.comp_mask = 1, .length = 1}, urocedv_dma_attr{},
                                 urocedv_dma_attr{.comp_mask = 0, .length = (uint64_t{1} << 46) + 1}})
    EXPECT_EQ(urocedv_query_dma(end.context, &wrong), EINVAL);
  EXPECT_EQ(urocedv_query_dma(end.context, nullptr), EINVAL);
}

/// The alignment that is told is what a page list needs: 64 KiB pages of a mapping of 256 KiB.
TEST(Limits, AlignmentOfAMapping_ExpectPagesOfThatSizeToBeListed) {
  const End end{device_at(0), {}};
  constexpr size_t kBytes = size_t{1} << 18;
  const std::unique_ptr<uint8_t, decltype(&std::free)> memory{
      static_cast<uint8_t*>(std::aligned_alloc(kPage, kBytes)), &std::free};
  const uint64_t bus = urocedv_dma_map_single(end.context, memory.get(), kBytes, UROCEDV_DMA_BIDIRECTIONAL);
  const urocedv_fmr_attr wanted{.max_pages = 4, .max_maps = 2, .page_shift = 16};
  urocedv_fmr* fmr = urocedv_alloc_fmr(end.pd, IBV_ACCESS_REMOTE_READ, &wanted);
  const std::array<uint64_t, 4> pages{bus + 0x30000, bus + 0x10000, bus, bus + 0x20000};
  EXPECT_EQ(urocedv_map_phys_fmr(fmr, pages.data(), 4, kIova), 0);
  EXPECT_EQ(urocedv_unmap_fmr(&fmr, 1), 0);
  EXPECT_EQ(urocedv_dealloc_fmr(fmr), 0);
  EXPECT_EQ(urocedv_dma_unmap_single(end.context, bus, kBytes, UROCEDV_DMA_BIDIRECTIONAL), 0);
}

TEST(Limits, UnknownBitsAndDirections_ExpectEinval) {
  const End end{device_at(0), {}};
  const urocedv_fmr_attr fmr{.comp_mask = 1, .max_pages = 1, .max_maps = 1, .page_shift = 12};
  errno = 0;
  EXPECT_EQ(urocedv_alloc_fmr(end.pd, 0, &fmr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  std::array<uint8_t, 64> bytes{};
  urocedv_sg sg{.comp_mask = 1, .address = bytes.data(), .length = 64};
  errno = 0;
  EXPECT_EQ(urocedv_dma_map_sg(end.context, &sg, 1, UROCEDV_DMA_BIDIRECTIONAL), 0);
  EXPECT_EQ(errno, EINVAL);
  sg.comp_mask = 0;
  ASSERT_EQ(urocedv_dma_map_sg(end.context, &sg, 1, UROCEDV_DMA_BIDIRECTIONAL), 1);
  ibv_mr* mr = urocedv_alloc_mr(end.pd, UROCEDV_MR_TYPE_MEM_REG, 1);
  sg.comp_mask = 2;
  errno = 0;
  EXPECT_EQ(urocedv_map_mr_sg(mr, &sg, 1, nullptr, kPage), 0);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(urocedv_dma_unmap_sg(end.context, &sg, 1, UROCEDV_DMA_BIDIRECTIONAL), EINVAL);
  sg.comp_mask = 0;
  EXPECT_EQ(urocedv_dma_unmap_sg(end.context, &sg, 1, UROCEDV_DMA_BIDIRECTIONAL), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST(RegisteredMemory, ItsRegion_ExpectAWindowOverItAndNoEndButTheMemorys) {
  End peer{device_at(0), {.signal_all = true}};
  End owner{device_at(1), {.signal_all = true}};
  connect(peer, owner);
  peer.fill(3);
  for (const uint32_t flags : {0u, uint32_t{UROCEDV_MEMORY_OWN_REGION}}) {
    urocedv_memory* memory = urocedv_alloc_memory(owner.pd, kPage, UROCEDV_ANY_NODE,
                                                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND, flags);
    ASSERT_NE(memory, nullptr);
    ASSERT_NE(memory->mr, nullptr);
    EXPECT_EQ(memory->mr->lkey, memory->lkey);
    EXPECT_EQ(memory->mr->addr, memory->addr);
    EXPECT_EQ(memory->mr->length, memory->length);
    EXPECT_EQ(ibv_dereg_mr(memory->mr), EINVAL);
    ibv_mw* window = urocedv_alloc_mw(owner.pd, UROCEDV_MW_TYPE_1);
    const auto address = reinterpret_cast<uintptr_t>(memory->addr);
    ibv_mw_bind bind{
        .wr_id = 1,
        .send_flags = IBV_SEND_SIGNALED,
        .bind_info = {
            .mr = memory->mr, .addr = address, .length = 64, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}};
    ASSERT_EQ(ibv_bind_mw(owner.qp, window, &bind), 0);
    ASSERT_EQ(owner.next().status, IBV_WC_SUCCESS);
    ibv_sge segment = peer.part(0, 64);
    ibv_send_wr request = write_request(1, segment, owner);
    request.wr.rdma = {.remote_addr = address, .rkey = window->rkey};
    ASSERT_EQ(peer.send(request), 0);
    EXPECT_EQ(peer.next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(std::memcmp(memory->addr, peer.memory.data(), 64), 0);
    EXPECT_EQ(ibv_dealloc_mw(window), 0);
    EXPECT_EQ(urocedv_free_memory(memory), 0);
  }
}

/// Registration, use and invalidation in one list of ibv_post_send.
class PostedByList : public Connected {
 protected:
  PostedByList() : Connected({.signal_all = true}) {
    one.fill(9);
    bus_ = urocedv_dma_map_single(other.context, page_.get(), kPage, UROCEDV_DMA_BIDIRECTIONAL);
    list_ = urocedv_alloc_page_list(other.context, 1);
    list_->pages[0] = bus_;
    mr_ = urocedv_alloc_mr(other.pd, UROCEDV_MR_TYPE_MEM_REG, 1);
  }
  ~PostedByList() override {
    EXPECT_EQ(ibv_dereg_mr(mr_), 0);
    EXPECT_EQ(urocedv_free_page_list(list_), 0);
    EXPECT_EQ(urocedv_dma_unmap_single(other.context, bus_, kPage, UROCEDV_DMA_BIDIRECTIONAL), 0);
  }
  [[nodiscard]] urocedv_send_wr registration() const {
    urocedv_send_wr request{};
    request.wr.wr_id = 1;
    request.wr.opcode = IBV_WR_DRIVER1;
    request.opcode = UROCEDV_WR_REG_MR;
    request.reg_mr.mr = mr_;
    request.reg_mr.attr.iova = kIova;
    request.reg_mr.attr.key = mr_->rkey;
    request.reg_mr.attr.access = IBV_ACCESS_LOCAL_WRITE;
    request.reg_mr.attr.page_list = list_;
    request.reg_mr.attr.length = kPage;
    request.reg_mr.attr.pages = 1;
    request.reg_mr.attr.page_shift = 12;
    return request;
  }

  std::unique_ptr<uint8_t, decltype(&std::free)> page_{
      static_cast<uint8_t*>(std::aligned_alloc(kPage, kPage)), &std::free};
  uint64_t bus_ = 0;
  urocedv_page_list* list_ = nullptr;
  ibv_mr* mr_ = nullptr;
};

TEST_F(PostedByList, RegisterReadAndInvalidate_ExpectEachInItsTurn) {
  urocedv_send_wr first = registration();
  ibv_sge segment{kIova, kPage, mr_->lkey};
  urocedv_send_wr second{};
  second.wr = read_request(2, segment, one);
  second.wr.opcode = IBV_WR_DRIVER1;
  second.opcode = UROCEDV_WR_RDMA_READ_INV;
  second.invalidate_key = mr_->lkey;
  ibv_send_wr third = read_request(3, segment, one);
  first.wr.next = &second.wr;
  second.wr.next = &third;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(other.qp, &first.wr, &bad), 0);
  const ibv_wc registered = other.next();
  EXPECT_EQ(registered.status, IBV_WC_SUCCESS);
  EXPECT_EQ(registered.opcode, UROCEDV_WC_REG_MR);
  const ibv_wc read = other.next();
  EXPECT_EQ(read.status, IBV_WC_SUCCESS);
  EXPECT_EQ(read.opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(std::memcmp(page_.get(), one.memory.data(), kPage), 0);
  EXPECT_EQ(other.next().status, IBV_WC_LOC_PROT_ERR) << "the key was invalidated";
}

TEST_F(PostedByList, Refusals_ExpectTheErrnoTheBadRequestAndNothingHeld) {
  const auto refusal = [&](auto&& spoil) {
    urocedv_send_wr request = registration();
    spoil(request);
    ibv_send_wr* bad = nullptr;
    const int error = ibv_post_send(other.qp, &request.wr, &bad);
    if (error != 0) {
      EXPECT_EQ(bad, &request.wr);
    }
    return error;
  };
  using Wr = urocedv_send_wr;
  EXPECT_EQ(refusal([](Wr& wr) { wr.comp_mask = 1; }), EINVAL);
  EXPECT_EQ(refusal([](Wr& wr) { wr.opcode = 0; }), EINVAL);
  EXPECT_EQ(refusal([](Wr& wr) { wr.reg_mr.mr = nullptr; }), EINVAL);
  EXPECT_EQ(refusal([&](Wr& wr) { wr.reg_mr.mr = other.mr; }), EINVAL) << "of ibv_reg_mr";
  EXPECT_EQ(refusal([](Wr& wr) { wr.reg_mr.attr.comp_mask = 1; }), EINVAL);
  EXPECT_EQ(refusal([](Wr& wr) { wr.reg_mr.attr.pages = 2; }), EINVAL);
  EXPECT_EQ(refusal([](Wr& wr) { wr.reg_mr.attr.access = IBV_ACCESS_ON_DEMAND; }), EOPNOTSUPP);
  EXPECT_EQ(refusal([](Wr& wr) { wr.wr.send_flags = IBV_SEND_INLINE; }), EINVAL);
  const auto read = [](Wr& wr) { wr.opcode = UROCEDV_WR_RDMA_READ_INV; };
  EXPECT_EQ(refusal([&](Wr& wr) { read(wr), wr.wr.num_sge = -1; }), EINVAL);
  EXPECT_EQ(refusal([&](Wr& wr) { read(wr), wr.wr.num_sge = 5; }), EINVAL) << "more than max_send_sge";
  EXPECT_EQ(refusal([&](Wr& wr) { read(wr), wr.wr.send_flags = IBV_SEND_INLINE; }), EINVAL);
  // The second of two with one page list; what was before it is posted.
  urocedv_send_wr good = registration();
  urocedv_send_wr second = registration();
  good.wr.next = &second.wr;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(other.qp, &good.wr, &bad), EBUSY);
  EXPECT_EQ(bad, &second.wr);
  EXPECT_EQ(other.next().status, IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace uroce::verbs_test
