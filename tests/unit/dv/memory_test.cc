#include <gtest/gtest.h>
#include <infiniband/urocedv.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "ends.h"

// Memory that is registered from the start, by nothing but the public headers.

namespace uroce::verbs_test {
namespace {

constexpr int kRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

class Memory : public ::testing::Test {
 protected:
  Memory() : one(device_at(0), {.signal_all = true}), other(device_at(1), {.signal_all = true}) {
    connect(one, other);
  }
  static urocedv_memory* get(const End& end, size_t bytes, uint32_t flags = 0) {
    urocedv_memory* memory = urocedv_alloc_memory(end.pd, bytes, UROCEDV_ANY_NODE, kRights, flags);
    EXPECT_NE(memory, nullptr);
    return memory;
  }
  static ibv_sge all(const urocedv_memory& memory) {
    return {reinterpret_cast<uintptr_t>(memory.addr), static_cast<uint32_t>(memory.length), memory.lkey};
  }
  static void name(ibv_send_wr& request, const urocedv_memory& memory) {
    request.wr.rdma = {.remote_addr = reinterpret_cast<uintptr_t>(memory.addr), .rkey = memory.rkey};
  }
  End one;
  End other;
};

TEST_F(Memory, FromOneToTheOtherByKeysAndBusAddress) {
  for (const size_t bytes : {size_t{1}, size_t{64}, size_t{5000}, size_t{1} << 20, (size_t{2} << 20) + 5}) {
    urocedv_memory* from = get(one, bytes);
    urocedv_memory* to = get(other, bytes);
    EXPECT_EQ(from->length, bytes);
    EXPECT_EQ(from->pd, one.pd);
    std::memset(from->addr, 0x5C, bytes);
    std::memset(to->addr, 0, bytes);
    ibv_sge segment = all(*from);
    ibv_send_wr request = write_request(1, segment, other);
    name(request, *to);
    ASSERT_EQ(one.send(request), 0);
    ASSERT_EQ(one.next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(std::memcmp(from->addr, to->addr, bytes), 0) << bytes;

    // It is mapped for DMA as well, as a whole.
    ibv_mr* by_bus = urocedv_get_dma_mr(other.pd, IBV_ACCESS_LOCAL_WRITE);
    std::memset(to->addr, 0x7D, bytes);
    ibv_sge bus{to->dma_address, static_cast<uint32_t>(bytes), by_bus->lkey};
    ibv_send_wr back = write_request(2, bus, one);
    name(back, *from);
    ASSERT_EQ(other.send(back), 0);
    ASSERT_EQ(other.next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(std::memcmp(from->addr, to->addr, bytes), 0) << bytes;
    EXPECT_EQ(ibv_dereg_mr(by_bus), 0);
    EXPECT_EQ(urocedv_free_memory(from), 0);
    EXPECT_EQ(urocedv_free_memory(to), 0);
  }
}

TEST_F(Memory, OneOfItsOwnHasKeysForNothingElse) {
  urocedv_memory* own = get(other, 100, UROCEDV_MEMORY_OWN_REGION);
  urocedv_memory* shared = get(other, 100);
  EXPECT_NE(own->rkey, shared->rkey);
  ibv_sge segment = one.part(0, 101);
  ibv_send_wr request = write_request(1, segment, other);
  name(request, *own);
  EXPECT_EQ(ibv_dealloc_pd(other.pd), EBUSY);
  ASSERT_EQ(one.send(request), 0);
  EXPECT_EQ(one.next().status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(urocedv_free_memory(own), 0);
  EXPECT_EQ(urocedv_free_memory(shared), 0);
}

TEST_F(Memory, FreedWhilePartOfAPhysicalRegionIsBusy) {
  urocedv_memory* memory = get(other, 4096, UROCEDV_MEMORY_OWN_REGION);
  const urocedv_phys_buf run{memory->dma_address, memory->length};
  ibv_mr* mr = urocedv_reg_phys_mr(other.pd, &run, 1, kRights, 0);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(urocedv_free_memory(memory), EBUSY);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(urocedv_free_memory(memory), 0);
}

TEST_F(Memory, RefusedWithTheErrnoOfTheHeader) {
  const auto refusal = [&](size_t bytes, int node, int access, uint32_t flags) {
    errno = 0;
    EXPECT_EQ(urocedv_alloc_memory(one.pd, bytes, node, access, flags), nullptr);
    return errno;
  };
  EXPECT_EQ(refusal(0, UROCEDV_ANY_NODE, kRights, 0), EINVAL);
  EXPECT_EQ(refusal(SIZE_MAX, UROCEDV_ANY_NODE, kRights, 0), EINVAL);
  EXPECT_EQ(refusal(64, 1000, kRights, 0), EINVAL);
  EXPECT_EQ(refusal(64, UROCEDV_ANY_NODE, IBV_ACCESS_REMOTE_WRITE, 0), EINVAL);
  EXPECT_EQ(refusal(64, UROCEDV_ANY_NODE, IBV_ACCESS_ZERO_BASED, 0), EINVAL);
  EXPECT_EQ(refusal(64, UROCEDV_ANY_NODE, kRights, 4), EINVAL);
  EXPECT_EQ(urocedv_free_memory(nullptr), EINVAL);
}

TEST_F(Memory, HugepagesOnlyOrNone) {
  errno = 0;
  urocedv_memory* memory =
      urocedv_alloc_memory(one.pd, 64, UROCEDV_ANY_NODE, kRights, UROCEDV_MEMORY_HUGEPAGES_ONLY);
  if (memory == nullptr) {
    EXPECT_EQ(errno, ENOMEM);
    return;
  }
  EXPECT_EQ(memory->page_size, size_t{2} << 20);
  EXPECT_EQ(urocedv_free_memory(memory), 0);
}

}  // namespace
}  // namespace uroce::verbs_test
