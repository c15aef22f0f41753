#include <gtest/gtest.h>
#include <infiniband/urocedv.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "ends.h"

// Physical regions, FMRs and their pools, by nothing but the public headers.

namespace uroce::verbs_test {
namespace {

constexpr int kEverything = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr uint32_t kPage = 4096;
constexpr uint32_t kPages = 4;
constexpr uint64_t kIova = 0x5000000000;

/// `other` has pages that are mapped on the bus one by one, in reverse; `one` uses them by their keys.
class Pages : public ::testing::Test {
 protected:
  Pages() : one(device_at(0), {.signal_all = true}), other(device_at(1), {.signal_all = true}) {
    connect(one, other);
    one.fill(1);
    for (uint32_t i = 0; i < kPages; ++i) {
      bus.push_back(map(page(i)));
      std::memset(page(i), static_cast<int>(0x10 + i), kPage);
    }
  }
  ~Pages() override {
    for (const uint64_t address : bus) EXPECT_EQ(unmap(address), 0);
  }

  uint8_t* page(uint32_t i) const { return memory.get() + size_t{kPages - 1 - i} * kPage; }
  uint64_t map(void* address) const {
    return urocedv_dma_map_single(other.context, address, kPage, UROCEDV_DMA_BIDIRECTIONAL);
  }
  int unmap(uint64_t address) const {
    return urocedv_dma_unmap_single(other.context, address, kPage, UROCEDV_DMA_BIDIRECTIONAL);
  }
  ibv_wc_status write(uint32_t rkey, uint64_t address, uint32_t bytes) {
    ibv_sge segment = one.part(0, bytes);
    ibv_send_wr request = write_request(1, segment, other);
    request.wr.rdma = {.remote_addr = address, .rkey = rkey};
    EXPECT_EQ(one.send(request), 0);
    return one.next().status;
  }
  ibv_wc_status read(uint32_t rkey, uint64_t address, uint32_t bytes) {
    ibv_sge segment = one.part(0, bytes);
    ibv_send_wr request = read_request(1, segment, other);
    request.wr.rdma = {.remote_addr = address, .rkey = rkey};
    EXPECT_EQ(one.send(request), 0);
    return one.next().status;
  }
  /// What `other` sends from, or receives at, an address of its own under an lkey.
  ibv_wc_status send_from(uint32_t lkey, uint64_t address, uint32_t bytes) {
    EXPECT_EQ(one.receive(2, one.all()), 0);
    ibv_sge segment{address, bytes, lkey};
    EXPECT_EQ(other.send(send_request(3, segment)), 0);
    const ibv_wc_status status = other.next().status;
    if (status == IBV_WC_SUCCESS) {
      EXPECT_EQ(one.next().status, IBV_WC_SUCCESS);
    }
    return status;
  }
  ibv_wc_status receive_at(uint32_t lkey, uint64_t address, uint32_t bytes) {
    EXPECT_EQ(other.receive(4, {address, bytes, lkey}), 0);
    ibv_sge segment = one.part(0, bytes);
    EXPECT_EQ(one.send(send_request(5, segment)), 0);
    EXPECT_EQ(one.next().status, IBV_WC_SUCCESS);
    return other.next().status;
  }
  /// The bytes of one's memory are those that lie `start` bytes into the pages.
  bool same(uint32_t start, uint32_t bytes) const {
    for (uint32_t i = 0; i < bytes; ++i) {
      if (one.memory[i] != page((start + i) / kPage)[(start + i) % kPage]) return false;
    }
    return true;
  }
  /// All four ways to use a region of all pages; each crosses pages.
  void expect_every_operation(uint32_t key, uint64_t address) {
    one.fill(7);
    ASSERT_EQ(write(key, address + 100, 3 * kPage), IBV_WC_SUCCESS);
    EXPECT_TRUE(same(100, 3 * kPage));
    std::memset(page(1), 0x77, kPage);
    ASSERT_EQ(read(key, address + 50, 2 * kPage), IBV_WC_SUCCESS);
    EXPECT_TRUE(same(50, 2 * kPage));
    std::memset(page(2), 0x78, kPage);
    ASSERT_EQ(send_from(key, address + 60, 3 * kPage), IBV_WC_SUCCESS);
    EXPECT_TRUE(same(60, 3 * kPage));
    one.fill(99);
    ASSERT_EQ(receive_at(key, address + 70, 3 * kPage), IBV_WC_SUCCESS);
    EXPECT_TRUE(same(70, 3 * kPage));
  }

  std::unique_ptr<uint8_t, decltype(&std::free)> memory{
      static_cast<uint8_t*>(std::aligned_alloc(kPage, size_t{kPages} * kPage)), &std::free};
  std::vector<uint64_t> bus;
  End one;
  End other;
};

class Physical : public Pages {
 protected:
  ibv_mr* make(int access = kEverything, uint64_t iova = kIova) {
    std::vector<urocedv_phys_buf> bufs;
    for (const uint64_t address : bus) bufs.push_back({address, kPage});
    return urocedv_reg_phys_mr(other.pd, bufs.data(), kPages, access, iova);
  }
};

TEST_F(Physical, EveryOperation) {
  ibv_mr* mr = make();
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(mr->addr), kIova);
  EXPECT_EQ(mr->length, kPages * kPage);
  EXPECT_EQ(mr->pd, other.pd);
  expect_every_operation(mr->rkey, kIova);
  EXPECT_EQ(ibv_dealloc_pd(other.pd), EBUSY);
  EXPECT_EQ(unmap(bus[0]), EBUSY);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Physical, RunsBeginAndEndAnywhere) {
  const std::vector<urocedv_phys_buf> bufs = {{bus[2] + 17, 1000}, {bus[0] + 4000, 96}, {bus[1] + 1, 1}};
  ibv_mr* mr = urocedv_reg_phys_mr(other.pd, bufs.data(), 3, kEverything | IBV_ACCESS_ZERO_BASED, kIova);
  ASSERT_NE(mr, nullptr);
  ASSERT_EQ(write(mr->rkey, 0, 1097), IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(one.memory.data(), page(2) + 17, 1000), 0);
  EXPECT_EQ(std::memcmp(one.memory.data() + 1000, page(0) + 4000, 96), 0);
  EXPECT_EQ(one.memory[1096], page(1)[1]);
  EXPECT_EQ(page(1)[0], 0x11);
  EXPECT_EQ(page(1)[2], 0x11);
  EXPECT_EQ(write(mr->rkey, 0, 1098), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Physical, AfterItsEndTheKeyIsDead) {
  ibv_mr* mr = make();
  const uint32_t key = mr->rkey;
  EXPECT_EQ(write(key, kIova, 8), IBV_WC_SUCCESS);
  ASSERT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(write(key, kIova, 8), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Physical, WithoutTheRightToWriteItIsNotWritten) {
  ibv_mr* mr = make(IBV_ACCESS_REMOTE_READ);
  EXPECT_EQ(read(mr->rkey, kIova, 100), IBV_WC_SUCCESS);
  EXPECT_EQ(write(mr->rkey, kIova, 100), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Physical, RefusedWithTheErrnoOfTheHeader) {
  const auto refusal = [&](std::vector<urocedv_phys_buf> bufs, int access) {
    errno = 0;
    EXPECT_EQ(urocedv_reg_phys_mr(other.pd, bufs.data(), static_cast<int>(bufs.size()), access, kIova),
              nullptr);
    return errno;
  };
  EXPECT_EQ(refusal({}, 0), EINVAL);
  EXPECT_EQ(refusal({{bus[0], 0}}, 0), EINVAL);
  EXPECT_EQ(refusal({{bus[0], UINT64_MAX}}, 0), EINVAL);
  EXPECT_EQ(refusal({{bus[0], kPage}}, IBV_ACCESS_REMOTE_WRITE), EINVAL);
  EXPECT_EQ(refusal({{bus[0], kPage}}, -1), EINVAL);
  EXPECT_EQ(refusal({{bus[0], kPage}, {bus[1], kPage + 1}}, 0), EFAULT);
  EXPECT_EQ(refusal({{reinterpret_cast<uintptr_t>(page(0)), kPage}}, 0), EFAULT);
  const uint64_t received = urocedv_dma_map_single(other.context, page(0), kPage, UROCEDV_DMA_FROM_DEVICE);
  EXPECT_EQ(refusal({{received, kPage}}, IBV_ACCESS_REMOTE_READ), EFAULT);
  EXPECT_EQ(urocedv_dma_unmap_single(other.context, received, kPage, UROCEDV_DMA_FROM_DEVICE), 0);
  errno = 0;
  EXPECT_EQ(urocedv_reg_phys_mr(other.pd, nullptr, 1, 0, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

class FmrFace : public Pages {
 protected:
  urocedv_fmr* alloc(uint32_t max_maps = 8, int access = kEverything) {
    const urocedv_fmr_attr attributes{.max_pages = kPages, .max_maps = max_maps, .page_shift = 12};
    return urocedv_alloc_fmr(other.pd, access, &attributes);
  }
};

TEST_F(FmrFace, EveryOperation) {
  urocedv_fmr* fmr = alloc();
  ASSERT_NE(fmr, nullptr);
  ASSERT_EQ(urocedv_map_phys_fmr(fmr, bus.data(), kPages, kIova), 0);
  EXPECT_EQ(fmr->lkey, fmr->rkey);
  expect_every_operation(fmr->rkey, kIova);
  EXPECT_EQ(unmap(bus[3]), EBUSY);
  EXPECT_EQ(urocedv_dealloc_fmr(fmr), EBUSY);
  ASSERT_EQ(urocedv_unmap_fmr(&fmr, 1), 0);
  EXPECT_EQ(ibv_dealloc_pd(other.pd), EBUSY);
  EXPECT_EQ(urocedv_dealloc_fmr(fmr), 0);
}

TEST_F(FmrFace, MappedAgainItHasOtherPagesAndAnotherKey) {
  urocedv_fmr* fmr = alloc();
  ASSERT_EQ(urocedv_map_phys_fmr(fmr, bus.data(), 1, kIova), 0);
  const uint32_t first = fmr->rkey;
  ASSERT_EQ(write(first, kIova, kPage), IBV_WC_SUCCESS);
  ASSERT_EQ(urocedv_map_phys_fmr(fmr, bus.data() + 1, 1, kIova), 0);
  EXPECT_EQ(fmr->rkey >> 8, first >> 8);
  EXPECT_NE(fmr->rkey, first);
  one.fill(50);
  ASSERT_EQ(write(fmr->rkey, kIova, kPage), IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(one.memory.data(), page(1), kPage), 0);
  EXPECT_NE(std::memcmp(one.memory.data(), page(0), kPage), 0);
  EXPECT_EQ(write(first, kIova, kPage), IBV_WC_REM_ACCESS_ERR);
  ASSERT_EQ(urocedv_unmap_fmr(&fmr, 1), 0);
  EXPECT_EQ(urocedv_dealloc_fmr(fmr), 0);
}

TEST_F(FmrFace, UnmappedItsKeyIsDead) {
  urocedv_fmr* fmrs[] = {alloc(), alloc(), alloc()};
  for (urocedv_fmr* fmr : fmrs) ASSERT_EQ(urocedv_map_phys_fmr(fmr, bus.data(), kPages, kIova), 0);
  ASSERT_EQ(write(fmrs[1]->rkey, kIova, 8), IBV_WC_SUCCESS);
  ASSERT_EQ(urocedv_unmap_fmr(fmrs, 3), 0);
  EXPECT_EQ(write(fmrs[1]->rkey, kIova, 8), IBV_WC_REM_ACCESS_ERR);
  for (urocedv_fmr* fmr : fmrs) EXPECT_EQ(urocedv_dealloc_fmr(fmr), 0);
}

TEST_F(FmrFace, RefusedWithTheErrnoOfTheHeader) {
  const auto refusal = [&](urocedv_fmr_attr attributes, int access = 0) {
    errno = 0;
    EXPECT_EQ(urocedv_alloc_fmr(other.pd, access, &attributes), nullptr);
    return errno;
  };
  EXPECT_EQ(refusal({0, 0, 1, 12}), EINVAL);
  EXPECT_EQ(refusal({0, 65537, 1, 12}), EINVAL);
  EXPECT_EQ(refusal({0, 1, 0, 12}), EINVAL);
  EXPECT_EQ(refusal({0, 1, 256, 12}), EINVAL);
  EXPECT_EQ(refusal({0, 1, 1, 11}), EINVAL);
  EXPECT_EQ(refusal({0, 1, 1, 31}), EINVAL);
  EXPECT_EQ(refusal({0, 1, 1, 256 + 12}), EINVAL);
  EXPECT_EQ(refusal({0, 1, 1, 12}, IBV_ACCESS_REMOTE_WRITE), EINVAL);
  EXPECT_EQ(refusal({0, 1, 1, 12}, IBV_ACCESS_ZERO_BASED), EINVAL);
  EXPECT_EQ(refusal({0, 1, 1, 12}, IBV_ACCESS_MW_BIND), EINVAL);
  EXPECT_EQ(urocedv_alloc_fmr(other.pd, 0, nullptr), nullptr);

  urocedv_fmr* fmr = alloc(2);
  const uint64_t misaligned = bus[0] + 8;
  const uint64_t nowhere = bus[0] + (uint64_t{1} << 30);
  std::vector<uint64_t> many(kPages + 1, bus[0]);
  EXPECT_EQ(urocedv_map_phys_fmr(fmr, nullptr, 1, kIova), EINVAL);
  EXPECT_EQ(urocedv_map_phys_fmr(fmr, bus.data(), 0, kIova), EINVAL);
  EXPECT_EQ(urocedv_map_phys_fmr(fmr, many.data(), kPages + 1, kIova), EINVAL);
  EXPECT_EQ(urocedv_map_phys_fmr(fmr, bus.data(), 1, kIova + 8), EINVAL);
  EXPECT_EQ(urocedv_map_phys_fmr(fmr, &misaligned, 1, kIova), EINVAL);
  EXPECT_EQ(urocedv_map_phys_fmr(fmr, &nowhere, 1, kIova), EFAULT);
  EXPECT_EQ(urocedv_map_phys_fmr(fmr, bus.data(), 1, kIova), 0);
  EXPECT_EQ(urocedv_map_phys_fmr(fmr, bus.data(), 1, kIova), 0);
  EXPECT_EQ(urocedv_map_phys_fmr(fmr, bus.data(), 1, kIova), EAGAIN) << "twice, it was said";
  EXPECT_EQ(urocedv_unmap_fmr(nullptr, 1), EINVAL);
  EXPECT_EQ(urocedv_unmap_fmr(&fmr, -1), EINVAL);
  EXPECT_EQ(urocedv_unmap_fmr(nullptr, 0), 0);
  EXPECT_EQ(urocedv_unmap_fmr(&fmr, 1), 0);
  EXPECT_EQ(urocedv_map_phys_fmr(fmr, bus.data(), 1, kIova), 0);
  EXPECT_EQ(urocedv_unmap_fmr(&fmr, 1), 0);
  EXPECT_EQ(urocedv_dealloc_fmr(fmr), 0);
}

class FmrPoolFace : public Pages {
 protected:
  urocedv_fmr_pool_param parameters(uint32_t size, uint32_t watermark) {
    urocedv_fmr_pool_param wanted{};
    wanted.access = kEverything;
    wanted.fmr = {.max_pages = kPages, .max_maps = 1, .page_shift = 12};
    wanted.pool_size = size;
    wanted.dirty_watermark = watermark;
    wanted.cache = 1;
    wanted.flush_function = [](urocedv_fmr_pool*, void* count) { ++*static_cast<int*>(count); };
    wanted.flush_arg = &told;
    return wanted;
  }
  urocedv_fmr_pool_stats query(urocedv_fmr_pool* pool) {
    urocedv_fmr_pool_stats stats{};
    EXPECT_EQ(urocedv_fmr_pool_query(pool, &stats), 0);
    return stats;
  }
  int told = 0;
};

TEST_F(FmrPoolFace, EveryOperation) {
  const urocedv_fmr_pool_param wanted = parameters(2, 2);
  urocedv_fmr_pool* pool = urocedv_create_fmr_pool(other.pd, &wanted);
  ASSERT_NE(pool, nullptr);
  urocedv_pool_fmr* fmr = urocedv_fmr_pool_map_phys(pool, bus.data(), kPages, kIova);
  ASSERT_NE(fmr, nullptr);
  EXPECT_EQ(fmr->pool, pool);
  expect_every_operation(fmr->rkey, kIova);
  EXPECT_EQ(urocedv_destroy_fmr_pool(pool), EBUSY);
  EXPECT_EQ(urocedv_fmr_pool_unmap(fmr), 0);
  EXPECT_EQ(ibv_dealloc_pd(other.pd), EBUSY);
  EXPECT_EQ(urocedv_destroy_fmr_pool(pool), 0);
}

TEST_F(FmrPoolFace, CacheWatermarkFlushAndStatistics) {
  const urocedv_fmr_pool_param wanted = parameters(3, 2);
  urocedv_fmr_pool* pool = urocedv_create_fmr_pool(other.pd, &wanted);
  ASSERT_NE(pool, nullptr);
  urocedv_pool_fmr* a = urocedv_fmr_pool_map_phys(pool, bus.data(), 1, kIova);
  EXPECT_EQ(urocedv_fmr_pool_map_phys(pool, bus.data(), 1, kIova), a);
  urocedv_pool_fmr* b = urocedv_fmr_pool_map_phys(pool, bus.data() + 1, 1, kIova);
  EXPECT_EQ(urocedv_fmr_pool_unmap(a), 0);
  EXPECT_EQ(urocedv_fmr_pool_unmap(a), 0);
  EXPECT_EQ(urocedv_fmr_pool_unmap(a), EINVAL);
  EXPECT_EQ(query(pool).dirty, 1u);
  EXPECT_EQ(unmap(bus[0]), EBUSY) << "lazily";
  EXPECT_EQ(write(a->rkey, kIova, 8), IBV_WC_SUCCESS);
  EXPECT_EQ(urocedv_fmr_pool_unmap(b), 0);
  EXPECT_EQ(told, 1);
  const urocedv_fmr_pool_stats stats = query(pool);
  EXPECT_EQ(stats.hits, 1u);
  EXPECT_EQ(stats.misses, 2u);
  EXPECT_EQ(stats.maps, 2u);
  EXPECT_EQ(stats.unmaps, 2u);
  EXPECT_EQ(stats.flushes, 1u);
  EXPECT_EQ(stats.in_use, 0u);
  EXPECT_EQ(stats.free, 3u);
  EXPECT_EQ(stats.dirty, 0u);
  urocedv_pool_fmr* c = urocedv_fmr_pool_map_phys(pool, bus.data() + 2, 1, kIova);
  EXPECT_EQ(urocedv_fmr_pool_unmap(c), 0);
  EXPECT_EQ(urocedv_fmr_pool_flush(pool), 0);
  EXPECT_EQ(told, 2);
  EXPECT_EQ(write(c->rkey, kIova, 8), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(urocedv_destroy_fmr_pool(pool), 0);
}

TEST_F(FmrPoolFace, RefusedWithTheErrnoOfTheHeader) {
  const auto refusal = [&](auto change) {
    urocedv_fmr_pool_param wanted = parameters(2, 1);
    change(wanted);
    errno = 0;
    EXPECT_EQ(urocedv_create_fmr_pool(other.pd, &wanted), nullptr);
    return errno;
  };
  using P = urocedv_fmr_pool_param;
  EXPECT_EQ(refusal([](P& p) { p.comp_mask = 1; }), EINVAL);
  EXPECT_EQ(refusal([](P& p) { p.pool_size = 0; }), EINVAL);
  EXPECT_EQ(refusal([](P& p) { p.dirty_watermark = 0; }), EINVAL);
  EXPECT_EQ(refusal([](P& p) { p.dirty_watermark = 3; }), EINVAL);
  EXPECT_EQ(refusal([](P& p) { p.access = IBV_ACCESS_REMOTE_WRITE; }), EINVAL);
  EXPECT_EQ(refusal([](P& p) { p.fmr.page_shift = 11; }), EINVAL);
  EXPECT_EQ(urocedv_create_fmr_pool(other.pd, nullptr), nullptr);

  const urocedv_fmr_pool_param wanted = parameters(1, 1);
  urocedv_fmr_pool* pool = urocedv_create_fmr_pool(other.pd, &wanted);
  urocedv_pool_fmr* fmr = urocedv_fmr_pool_map_phys(pool, bus.data(), 1, kIova);
  const auto map_refusal = [&](int pages, uint64_t iova) {
    errno = 0;
    EXPECT_EQ(urocedv_fmr_pool_map_phys(pool, bus.data(), pages, iova), nullptr);
    return errno;
  };
  EXPECT_EQ(map_refusal(1, kIova + kPage), EAGAIN);
  ASSERT_EQ(urocedv_fmr_pool_unmap(fmr), 0);
  EXPECT_EQ(map_refusal(0, kIova), EINVAL);
  EXPECT_EQ(map_refusal(1, kIova + 1), EINVAL);
  urocedv_fmr_pool_stats stats{};
  stats.comp_mask = 1;
  EXPECT_EQ(urocedv_fmr_pool_query(pool, &stats), EINVAL);
  EXPECT_EQ(urocedv_destroy_fmr_pool(pool), 0);
}

}  // namespace
}  // namespace uroce::verbs_test
