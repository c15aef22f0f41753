#include <gtest/gtest.h>
#include <infiniband/urocedv.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ends.h"

// Regions for fast registration, SEND and READ with invalidate, by nothing but the public headers.

namespace uroce::verbs_test {
namespace {

constexpr int kEverything = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr uint32_t kPage = 4096;
constexpr uint32_t kShift = 12;
constexpr uint32_t kPages = 4;
constexpr uint64_t kIova = 0x5000000123;
constexpr uint64_t kOperations =
    IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_RDMA_READ;

/// `own` has a region over pages that are mapped on the bus one by one, in reverse; `peer` uses its keys.
class FastRegion : public ::testing::Test {
 protected:
  FastRegion() {
    connect(own, peer);
    peer.fill(1);
    for (uint32_t i = 0; i < kPages; ++i) {
      bus.push_back(urocedv_dma_map_single(own.context, page(i), kPage, UROCEDV_DMA_BIDIRECTIONAL));
      list->pages[i] = bus[i];
    }
  }
  ~FastRegion() override {
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    EXPECT_EQ(urocedv_free_page_list(list), 0);
    for (const uint64_t address : bus) EXPECT_EQ(unmap(address), 0);
  }

  uint8_t* page(uint32_t i) const { return memory.get() + size_t{kPages - 1 - i} * kPage; }
  int unmap(uint64_t address) const {
    return urocedv_dma_unmap_single(own.context, address, kPage, UROCEDV_DMA_BIDIRECTIONAL);
  }
  [[nodiscard]] urocedv_reg_mr_attr whole(uint8_t key) const {
    urocedv_update_key(mr, key);
    urocedv_reg_mr_attr attr{};
    attr.iova = kIova;
    attr.key = mr->rkey;
    attr.access = kEverything;
    attr.page_list = list;
    attr.length = kPages * kPage;
    attr.pages = kPages;
    attr.page_shift = kShift;
    return attr;
  }
  /// What ibv_wr_complete says.
  int post_register(const urocedv_reg_mr_attr& attr, ibv_mr* of = nullptr) {
    ibv_wr_start(qp);
    qp->wr_id = 50;
    qp->wr_flags = 0;
    urocedv_wr_reg_mr(qp, of != nullptr ? of : mr, &attr);
    return ibv_wr_complete(qp);
  }
  void expect(ibv_wc_opcode opcode, ibv_wc_status status = IBV_WC_SUCCESS) {
    const ibv_wc completion = own.next();
    EXPECT_EQ(completion.status, status);
    if (status == IBV_WC_SUCCESS) {
      EXPECT_EQ(completion.opcode, opcode);
    }
  }
  void bind(uint8_t key) {
    ASSERT_EQ(post_register(whole(key)), 0);
    expect(UROCEDV_WC_REG_MR);
  }
  int post_invalidate(uint32_t key) {
    ibv_send_wr request{};
    request.wr_id = 51;
    request.opcode = IBV_WR_LOCAL_INV;
    request.invalidate_rkey = key;
    return own.send(request);
  }
  ibv_wc_status peer_writes(uint32_t rkey, uint64_t offset, uint32_t bytes) {
    ibv_sge segment = peer.part(0, bytes);
    ibv_send_wr request = write_request(1, segment, own);
    request.wr.rdma = {.remote_addr = kIova + offset, .rkey = rkey};
    EXPECT_EQ(peer.send(request), 0);
    return peer.next().status;
  }
  ibv_wc_status peer_sends_invalidation(uint32_t rkey, uint32_t bytes) {
    ibv_sge segment = peer.part(0, bytes);
    ibv_send_wr request = send_request(2, segment);
    request.opcode = IBV_WR_SEND_WITH_INV;
    request.invalidate_rkey = rkey;
    EXPECT_EQ(peer.send(request), 0);
    return peer.next().status;
  }
  bool holds(uint64_t offset, uint32_t bytes) const {
    for (uint32_t i = 0; i < bytes; ++i) {
      const uint64_t at = offset + i;
      if (peer.memory[i] != page(static_cast<uint32_t>(at / kPage))[at % kPage]) return false;
    }
    return true;
  }

  std::unique_ptr<uint8_t, decltype(&std::free)> memory{
      static_cast<uint8_t*>(std::aligned_alloc(kPage, size_t{kPages} * kPage)), &std::free};
  std::vector<uint64_t> bus;
  End own{device_at(0), {.signal_all = true, .operations = kOperations}};
  End peer{device_at(1), {.signal_all = true}};
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(own.qp);
  ibv_mr* mr = urocedv_alloc_mr(own.pd, UROCEDV_MR_TYPE_MEM_REG, kPages);
  urocedv_page_list* list = urocedv_alloc_page_list(own.context, kPages);
};

TEST_F(FastRegion, RegisterUseInvalidate) {
  for (uint8_t key = 0; key < 20; ++key) {
    bind(key);
    ASSERT_EQ(peer_writes(mr->rkey, 100, 3 * kPage), IBV_WC_SUCCESS);
    EXPECT_TRUE(holds(100, 3 * kPage));
    EXPECT_EQ(unmap(bus[1]), EBUSY);
    EXPECT_EQ(post_invalidate(mr->rkey), 0);
    expect(IBV_WC_LOCAL_INV);
    peer.fill(key);
  }
  EXPECT_EQ(peer_writes(mr->rkey, 0, 1), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(FastRegion, InOneListOfRequests) {
  ibv_wr_start(qp);
  qp->wr_flags = 0;
  const urocedv_reg_mr_attr attr = whole(7);
  urocedv_wr_reg_mr(qp, mr, &attr);
  ibv_wr_rdma_read(qp, peer.mr->rkey, reinterpret_cast<uintptr_t>(peer.memory.data()));
  ibv_wr_set_sge(qp, mr->lkey, kIova + 5, 2 * kPage);
  ibv_wr_local_inv(qp, mr->lkey);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  expect(UROCEDV_WC_REG_MR);
  expect(IBV_WC_RDMA_READ);
  expect(IBV_WC_LOCAL_INV);
  EXPECT_TRUE(holds(5, 2 * kPage));
}

TEST_F(FastRegion, ReadWithInvalidate) {
  bind(9);
  ibv_wr_start(qp);
  qp->wr_flags = 0;
  urocedv_wr_rdma_read_inv(qp, peer.mr->rkey, reinterpret_cast<uintptr_t>(peer.memory.data()), mr->lkey);
  ibv_wr_set_sge(qp, mr->lkey, kIova, 3 * kPage + 7);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  expect(IBV_WC_RDMA_READ);
  EXPECT_TRUE(own.nothing_to_poll());
  EXPECT_TRUE(holds(0, 3 * kPage + 7));
  EXPECT_EQ(peer_writes(mr->rkey, 0, 1), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(FastRegion, InvalidatedByThePeer) {
  bind(3);
  ASSERT_EQ(own.receive(8, own.part(0, 100)), 0);
  ASSERT_EQ(peer_sends_invalidation(mr->rkey, 40), IBV_WC_SUCCESS);
  const ibv_wc completion = own.next();
  EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
  EXPECT_EQ(completion.opcode, IBV_WC_RECV);
  EXPECT_EQ(completion.byte_len, 40U);
  EXPECT_EQ(completion.wc_flags, unsigned{IBV_WC_WITH_INV});
  EXPECT_EQ(completion.invalidated_rkey, mr->rkey);
  EXPECT_EQ(std::memcmp(own.memory.data(), peer.memory.data(), 40), 0);
  bind(4);
  EXPECT_EQ(peer_writes(mr->rkey, 0, 10), IBV_WC_SUCCESS);
}

TEST_F(FastRegion, SendWithInvalidateByBuilder) {
  ibv_mr* theirs = urocedv_alloc_mr(peer.pd, UROCEDV_MR_TYPE_MEM_REG, 1);
  ASSERT_EQ(peer.receive(1, peer.all()), 0);
  ibv_wr_start(qp);
  qp->wr_flags = 0;
  ibv_wr_send_inv(qp, theirs->rkey);
  const ibv_sge from = own.part(0, 8);
  ibv_wr_set_sge(qp, from.lkey, from.addr, from.length);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  // It is not bound, and stays so.
  expect(IBV_WC_SEND);
  const ibv_wc completion = peer.next();
  EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
  EXPECT_EQ(completion.invalidated_rkey, theirs->rkey);
  EXPECT_EQ(ibv_dereg_mr(theirs), 0);
}

TEST_F(FastRegion, OfAnSgList) {
  std::vector<uint8_t> buffer(3 * kPage);
  uint8_t* const first = buffer.data() + (kPage - reinterpret_cast<uintptr_t>(buffer.data()) % kPage);
  std::array<urocedv_sg, 3> sg{};
  sg[0] = {.address = first + 1000, .length = kPage - 1000};
  sg[1] = {.address = page(2), .length = kPage};
  sg[2] = {.address = page(0), .length = 500};
  ASSERT_EQ(urocedv_dma_map_sg(own.context, sg.data(), 3, UROCEDV_DMA_BIDIRECTIONAL), 3);
  uint64_t offset = 96;
  ASSERT_EQ(urocedv_map_mr_sg(mr, sg.data(), 3, &offset, kPage), 3);
  EXPECT_EQ(offset, 0U);
  EXPECT_EQ(mr->length, 3000U + kPage + 500);
  EXPECT_EQ(reinterpret_cast<uint64_t>(mr->addr), sg[0].dma_address + 96);
  urocedv_reg_mr_attr attr{};
  attr.iova = kIova;
  attr.key = mr->rkey;
  attr.access = kEverything;
  ASSERT_EQ(post_register(attr), 0);
  expect(UROCEDV_WC_REG_MR);
  const auto bytes = static_cast<uint32_t>(mr->length);
  ASSERT_EQ(peer_writes(mr->rkey, 0, bytes), IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(first + 1096, peer.memory.data(), 3000), 0);
  EXPECT_EQ(std::memcmp(page(2), peer.memory.data() + 3000, kPage), 0);
  EXPECT_EQ(std::memcmp(page(0), peer.memory.data() + 3000 + kPage, 500), 0);
  EXPECT_EQ(peer_writes(mr->rkey, 0, bytes + 1), IBV_WC_REM_ACCESS_ERR);
  // All but the first entry begin on the border of a page.
  std::swap(sg[0], sg[1]);
  EXPECT_EQ(urocedv_map_mr_sg(mr, sg.data(), 3, nullptr, kPage), 1);
  std::swap(sg[0], sg[1]);
  ASSERT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(urocedv_dma_unmap_sg(own.context, sg.data(), 3, UROCEDV_DMA_BIDIRECTIONAL), 0);
  mr = urocedv_alloc_mr(own.pd, UROCEDV_MR_TYPE_MEM_REG, kPages);
}

/// Nothing of a list that goes wrong is posted, and its pages are free again.
TEST_F(FastRegion, WhatIsNotPostedPinsNothing) {
  const urocedv_reg_mr_attr attr = whole(1);
  ibv_wr_start(qp);
  qp->wr_flags = 0;
  urocedv_wr_reg_mr(qp, mr, &attr);
  ibv_wr_abort(qp);
  ibv_wr_start(qp);
  urocedv_wr_reg_mr(qp, mr, &attr);
  urocedv_wr_reg_mr(qp, mr, &attr);
  EXPECT_EQ(ibv_wr_complete(qp), EBUSY);
  ibv_wr_start(qp);
  urocedv_wr_reg_mr(qp, mr, &attr);
  ibv_wr_set_sge(qp, 0, 0, 0);
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL) << "data of a registration";
  ibv_wr_start(qp);
  urocedv_wr_reg_mr(qp, mr, &attr);
  urocedv_wr_rdma_read_inv(qp, 0, 0, 0);
  ibv_wr_set_inline_data(qp, memory.get(), 8);
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL) << "an inline READ";
  EXPECT_TRUE(own.nothing_to_poll());
  EXPECT_EQ(unmap(bus[0]), 0);
  bus.erase(bus.begin());
}

/// The table of what may not be posted. What is refused later, by a completion, is below.
TEST_F(FastRegion, PostRefusals) {
  const auto refusal = [&](auto change) {
    urocedv_reg_mr_attr attr = whole(1);
    change(attr);
    return post_register(attr);
  };
  EXPECT_EQ(refusal([](auto& a) { a.comp_mask = 1; }), EINVAL);
  EXPECT_EQ(refusal([](auto& a) { a.access = IBV_ACCESS_REMOTE_WRITE; }), EINVAL);
  EXPECT_EQ(refusal([](auto& a) { a.access = 1 << 15; }), EINVAL);
  EXPECT_EQ(refusal([](auto& a) { a.access |= IBV_ACCESS_ZERO_BASED; }), EINVAL);
  EXPECT_EQ(refusal([](auto& a) { a.access |= IBV_ACCESS_ON_DEMAND; }), EOPNOTSUPP);
  EXPECT_EQ(refusal([](auto& a) { a.pages = kPages + 1; }), EINVAL) << "too many pages";
  EXPECT_EQ(refusal([](auto& a) { a.pages = kPages - 1; }), EINVAL) << "too few pages";
  EXPECT_EQ(refusal([](auto& a) { a.length = 0; }), EINVAL);
  EXPECT_EQ(refusal([](auto& a) { ++a.length; }), EINVAL) << "beyond the last page";
  EXPECT_EQ(refusal([](auto& a) { a.length = UINT64_MAX; }), EINVAL);
  EXPECT_EQ(refusal([](auto& a) { a.iova = UINT64_MAX - 5; }), EINVAL) << "wraps";
  EXPECT_EQ(refusal([](auto& a) { a.offset = kPage; }), EINVAL);
  EXPECT_EQ(refusal([](auto& a) { a.page_shift = 11; }), EINVAL);
  EXPECT_EQ(refusal([](auto& a) { a.page_shift = 300; }), EINVAL);
  list->pages[2] += 8;
  EXPECT_EQ(refusal([](auto&) {}), EINVAL) << "no multiple of the page size";
  list->pages[2] = reinterpret_cast<uint64_t>(page(2));
  EXPECT_EQ(refusal([](auto&) {}), EINVAL) << "a virtual address";
  list->pages[2] = bus[2];
  EXPECT_EQ(post_register(whole(1), own.mr), EINVAL) << "a region of another kind";
  urocedv_page_list* theirs = urocedv_alloc_page_list(peer.context, 1);
  EXPECT_EQ(refusal([&](auto& a) { a.page_list = theirs; }), EINVAL) << "another device's list";
  EXPECT_EQ(urocedv_free_page_list(theirs), 0);
  qp->wr_flags = IBV_SEND_INLINE;
  ibv_wr_start(qp);
  const urocedv_reg_mr_attr attr = whole(1);
  urocedv_wr_reg_mr(qp, mr, &attr);
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);
  ibv_send_wr inline_invalidation{};
  inline_invalidation.opcode = IBV_WR_LOCAL_INV;
  inline_invalidation.send_flags = IBV_SEND_INLINE;
  EXPECT_EQ(own.send(inline_invalidation), EINVAL);
  for (const uint64_t address : bus) EXPECT_EQ(unmap(address), 0);
  bus.clear();
}

/// IBV_WC_MW_BIND_ERR is what libibverbs calls the memory management operation error, and what mlx5 reports
/// for these (rxe says IBV_WC_LOC_QP_OP_ERR).
TEST_F(FastRegion, CompletionRefusals) {
  ibv_pd* other_domain = ibv_alloc_pd(own.context);
  ibv_mr* foreign = urocedv_alloc_mr(other_domain, UROCEDV_MR_TYPE_MEM_REG, kPages);
  ibv_mr* second = urocedv_alloc_mr(own.pd, UROCEDV_MR_TYPE_MEM_REG, kPages);
  const auto expect_refused = [&](int posted) {
    EXPECT_EQ(posted, 0);
    EXPECT_EQ(own.next().status, IBV_WC_MW_BIND_ERR);
    for (const End* end : {&own, &peer}) {
      ibv_qp_attr reset{};
      reset.qp_state = IBV_QPS_RESET;
      EXPECT_EQ(ibv_modify_qp(end->qp, &reset, IBV_QP_STATE), 0);
    }
    connect(own, peer);
  };
  urocedv_reg_mr_attr attr = whole(1);
  attr.key = second->rkey;
  expect_refused(post_register(attr));
  attr.key = foreign->rkey;
  expect_refused(post_register(attr, foreign));
  bind(2);
  expect_refused(post_register(whole(3)));    // bound
  expect_refused(post_invalidate(mr->rkey));  // its next key
  expect_refused(post_invalidate(foreign->rkey));
  expect_refused(post_invalidate(own.mr->rkey));  // a user region
  expect_refused(post_invalidate(0));
  urocedv_update_key(mr, 2);
  EXPECT_EQ(peer_writes(mr->rkey, 0, 10), IBV_WC_SUCCESS) << "none of these has touched the region";
  EXPECT_EQ(ibv_dereg_mr(foreign), 0);
  EXPECT_EQ(post_invalidate(second->rkey), 0);
  EXPECT_EQ(own.next().status, IBV_WC_SUCCESS) << "what is not bound stays so";
  EXPECT_EQ(ibv_dereg_mr(second), 0);
  EXPECT_EQ(ibv_dealloc_pd(other_domain), 0);
}

TEST_F(FastRegion, MakingRefusals) {
  const auto refusal = [&](ibv_pd* pd, urocedv_mr_type type, uint32_t pages) {
    errno = 0;
    EXPECT_EQ(urocedv_alloc_mr(pd, type, pages), nullptr);
    return errno;
  };
  urocedv_device_attr attributes{};
  ASSERT_EQ(urocedv_query_device(own.context, &attributes), 0);
  EXPECT_GE(attributes.max_fast_reg_pages, 256U);
  EXPECT_EQ(refusal(nullptr, UROCEDV_MR_TYPE_MEM_REG, 1), EINVAL);
  EXPECT_EQ(refusal(own.pd, static_cast<urocedv_mr_type>(1), 1), EINVAL);
  EXPECT_EQ(refusal(own.pd, UROCEDV_MR_TYPE_MEM_REG, 0), EINVAL);
  EXPECT_EQ(refusal(own.pd, UROCEDV_MR_TYPE_MEM_REG, attributes.max_fast_reg_pages + 1), EINVAL);
  ibv_mr* largest = urocedv_alloc_mr(own.pd, UROCEDV_MR_TYPE_MEM_REG, attributes.max_fast_reg_pages);
  ASSERT_NE(largest, nullptr);
  EXPECT_EQ(ibv_dereg_mr(largest), 0);
  EXPECT_EQ(urocedv_alloc_page_list(own.context, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(urocedv_free_page_list(nullptr), EINVAL);
  urocedv_sg sg{.dma_length = kPage, .dma_address = bus[0]};
  for (const uint64_t size : {uint64_t{0}, uint64_t{2048}, uint64_t{5000}}) {
    errno = 0;
    EXPECT_EQ(urocedv_map_mr_sg(mr, &sg, 1, nullptr, size), 0);
    EXPECT_EQ(errno, EINVAL);
  }
  EXPECT_EQ(urocedv_map_mr_sg(mr, &sg, 0, nullptr, kPage), 0);
  EXPECT_EQ(urocedv_map_mr_sg(own.mr, &sg, 1, nullptr, kPage), 0);
  EXPECT_EQ(errno, EINVAL);
}

/// A registration that never gets its turn, because its queue pair breaks or ends before.
TEST_F(FastRegion, FlushedAndDestroyed_ExpectThePagesFree) {
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(own.qp, &error, IBV_QP_STATE), 0);
  ASSERT_EQ(post_register(whole(1)), 0);
  expect(UROCEDV_WC_REG_MR, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(unmap(bus[3]), 0);
  bus.pop_back();
  urocedv_reg_mr_attr attr = whole(2);
  --attr.pages;
  attr.length -= kPage;
  ASSERT_EQ(post_register(attr), 0);
  ASSERT_EQ(ibv_destroy_qp(own.qp), 0);
  own.qp = nullptr;
  EXPECT_EQ(urocedv_free_page_list(list), 0);
  list = urocedv_alloc_page_list(own.context, kPages);
}

TEST_F(FastRegion, EndedWhileBound_ExpectThePagesFreeAndTheKeyDead) {
  bind(1);
  const uint32_t key = mr->rkey;
  ASSERT_EQ(ibv_dereg_mr(mr), 0);
  mr = urocedv_alloc_mr(own.pd, UROCEDV_MR_TYPE_MEM_REG, kPages);
  EXPECT_EQ(unmap(bus[0]), 0);
  bus.erase(bus.begin());
  EXPECT_EQ(peer_writes(key, 0, 1), IBV_WC_REM_ACCESS_ERR);
}

}  // namespace
}  // namespace uroce::verbs_test
