// What must not be reached: memory whose registration has ended, memory that is mapped for the other
// direction, what lies behind the end of a mapping; and keys and numbers that were never given out. By
// nothing but the public headers.
#include <gtest/gtest.h>
#include <infiniband/urocedv.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <vector>

#include "ends.h"

namespace uroce::verbs_test {
namespace {

constexpr uint32_t kPage = 4096;
constexpr uint64_t kIova = 0x5000000000;
constexpr urocedv_mw_type kWindowTypes[] = {UROCEDV_MW_TYPE_1, UROCEDV_MW_TYPE_2A, UROCEDV_MW_TYPE_2B};

/// A peer, and an owner with pages.
class Protection : public Connected {
 protected:
  static constexpr uint32_t kPages = 64;

  Protection() : Connected({.signal_all = true}) { std::memset(page(0), 0x5A, size_t{kPages} * kPage); }

  uint8_t* page(uint32_t i) const { return pages_.get() + size_t{i} * kPage; }
  uint64_t map(uint32_t i, urocedv_dma_direction direction = UROCEDV_DMA_BIDIRECTIONAL) const {
    return urocedv_dma_map_single(other.context, page(i), kPage, direction);
  }
  int unmap(uint64_t address, urocedv_dma_direction direction = UROCEDV_DMA_BIDIRECTIONAL) const {
    return urocedv_dma_unmap_single(other.context, address, kPage, direction);
  }
  /// The status that `one` gets for that access under a key of `other`.
  ibv_wc_status access(ibv_wr_opcode opcode, uint32_t rkey, uint64_t address, uint32_t bytes = 8) const {
    ibv_sge segment = one.part(0, bytes);
    ibv_send_wr request = write_request(1, segment, other);
    request.opcode = opcode;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      request.wr.atomic = {.remote_addr = address, .compare_add = 1, .swap = 0, .rkey = rkey};
    } else {
      request.wr.rdma = {.remote_addr = address, .rkey = rkey};
    }
    EXPECT_EQ(one.send(request), 0);
    return one.next().status;
  }

  std::unique_ptr<uint8_t, decltype(&std::free)> pages_{
      static_cast<uint8_t*>(std::aligned_alloc(kPage, size_t{kPages} * kPage)), &std::free};
};

/// A flush function that goes on using the pool while it is destroyed.
struct LateUser {
  uint64_t page = 0;
  std::vector<uint32_t> rkeys;
  std::vector<int> errors;

  static void flushed(urocedv_fmr_pool* pool, void* argument) {
    auto& self = *static_cast<LateUser*>(argument);
    urocedv_pool_fmr* fmr = urocedv_fmr_pool_map_phys(pool, &self.page, 1, kIova);
    self.errors.push_back(fmr == nullptr ? errno : 0);
    self.errors.push_back(urocedv_destroy_fmr_pool(pool));
    if (fmr == nullptr) return;
    self.rkeys.push_back(fmr->rkey);
    EXPECT_EQ(urocedv_fmr_pool_unmap(fmr), 0);
  }
};

TEST_F(Protection, PoolThatIsUsedWhileItIsDestroyed_ExpectThePeerRefused) {
  LateUser late{.page = map(0), .rkeys = {}, .errors = {}};
  urocedv_fmr_pool_param wanted{};
  wanted.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  wanted.fmr = {.max_pages = 1, .max_maps = 4, .page_shift = 12};
  wanted.pool_size = 4;
  wanted.dirty_watermark = 4;
  wanted.flush_function = LateUser::flushed;
  wanted.flush_arg = &late;
  urocedv_fmr_pool* pool = urocedv_create_fmr_pool(other.pd, &wanted);
  ASSERT_NE(pool, nullptr);
  urocedv_pool_fmr* fmr = urocedv_fmr_pool_map_phys(pool, &late.page, 1, kIova);
  ASSERT_NE(fmr, nullptr);
  late.rkeys.push_back(fmr->rkey);
  ASSERT_EQ(access(IBV_WR_RDMA_WRITE, fmr->rkey, kIova), IBV_WC_SUCCESS);
  ASSERT_EQ(urocedv_fmr_pool_unmap(fmr), 0);
  ASSERT_EQ(urocedv_destroy_fmr_pool(pool), 0);
  EXPECT_EQ(late.errors, (std::vector<int>{EBUSY, EBUSY}));

  EXPECT_EQ(unmap(late.page), 0) << "nothing is left that covers it";
  std::memset(page(0), 0x77, kPage);
  for (const uint32_t rkey : late.rkeys) {
    End peer{device_at(0), {.signal_all = true}};
    End owner{device_at(1), {.signal_all = true}};
    connect(peer, owner);
    ibv_sge segment = peer.part(0, 8);
    ibv_send_wr request = write_request(1, segment, owner);
    request.wr.rdma = {.remote_addr = kIova, .rkey = rkey};
    ASSERT_EQ(peer.send(request), 0);
    EXPECT_EQ(peer.next().status, IBV_WC_REM_ACCESS_ERR);
  }
  for (uint32_t i = 0; i < kPage; ++i) ASSERT_EQ(page(0)[i], 0x77);
}

TEST_F(Protection, MemoryThatOnlyTheDeviceWrites_ExpectNoAtomicOverIt) {
  constexpr int kAtomic = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  const uint64_t bus = map(0, UROCEDV_DMA_FROM_DEVICE);
  const urocedv_phys_buf run{bus, kPage};
  errno = 0;
  EXPECT_EQ(urocedv_reg_phys_mr(other.pd, &run, 1, kAtomic, kIova), nullptr);
  EXPECT_EQ(errno, EFAULT);
  const urocedv_fmr_attr attributes{.max_pages = 1, .max_maps = 1, .page_shift = 12};
  urocedv_fmr* fmr = urocedv_alloc_fmr(other.pd, kAtomic, &attributes);
  ASSERT_NE(fmr, nullptr);
  EXPECT_EQ(urocedv_map_phys_fmr(fmr, &bus, 1, kIova), EFAULT);
  EXPECT_EQ(urocedv_dealloc_fmr(fmr), 0);
  EXPECT_EQ(unmap(bus, UROCEDV_DMA_FROM_DEVICE), 0);
}

TEST_F(Protection, WindowsOverMemoryThatOnlyTheDeviceWrites_ExpectNoneForReading) {
  const uint64_t bus = map(0, UROCEDV_DMA_FROM_DEVICE);
  const urocedv_phys_buf run{bus, kPage};
  for (const int rights : {int{IBV_ACCESS_REMOTE_READ}, int{IBV_ACCESS_REMOTE_ATOMIC},
                           IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ}) {
    for (const urocedv_mw_type type : kWindowTypes) {
      ibv_mr* mr = urocedv_reg_phys_mr(other.pd, &run, 1, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND, kIova);
      ASSERT_NE(mr, nullptr);
      ibv_mw* window = urocedv_alloc_mw(other.pd, type);
      const ibv_mw_bind_info info{
          .mr = mr, .addr = kIova, .length = kPage, .mw_access_flags = static_cast<unsigned>(rights)};
      ibv_mw_bind bind{.wr_id = 1, .send_flags = IBV_SEND_SIGNALED, .bind_info = info};
      ibv_send_wr request{};
      request.opcode = IBV_WR_BIND_MW;
      request.bind_mw = {.mw = window, .rkey = ibv_inc_rkey(window->rkey), .bind_info = info};
      const int error =
          type == UROCEDV_MW_TYPE_1 ? ibv_bind_mw(other.qp, window, &bind) : other.send(request);
      ASSERT_EQ(error, 0);
      EXPECT_EQ(other.next().status, IBV_WC_MW_BIND_ERR) << "rights " << rights << ", type " << type;
      ASSERT_EQ(ibv_dealloc_mw(window), 0);
      ASSERT_EQ(ibv_dereg_mr(mr), 0);
      for (const End* end : {&one, &other}) {
        ibv_qp_attr reset{};
        reset.qp_state = IBV_QPS_RESET;
        ASSERT_EQ(ibv_modify_qp(end->qp, &reset, IBV_QP_STATE), 0);
      }
      connect(one, other);
    }
  }
  EXPECT_EQ(unmap(bus, UROCEDV_DMA_FROM_DEVICE), 0);
}

/// Two mappings that happen to be neighbours on the bus are two mappings still, in every operation.
TEST_F(Protection, OneSegmentOverTwoMappings_ExpectItRefusedByEveryOperation) {
  std::vector<uint64_t> bus;
  for (uint32_t i = 0; i < kPages; ++i) bus.push_back(map(i));
  uint64_t first = 0;
  for (uint32_t i = 1; i < kPages && first == 0; ++i)
    if (bus[i] == bus[i - 1] + kPage) first = bus[i - 1];
  ASSERT_NE(first, 0u) << "no two of them are neighbours";
  for (const ibv_wr_opcode opcode : {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    for (const bool receives : {false, true}) {
      if (receives && opcode != IBV_WR_SEND) continue;
      for (const uint32_t bytes : {2 * kPage, kPage + 8, kPage}) {
        SCOPED_TRACE("opcode " + std::to_string(opcode) + (receives ? ", receiver" : "") + ", " +
                     std::to_string(bytes));
        End peer{device_at(0), {.signal_all = true}};
        End owner{device_at(1), {.signal_all = true}};
        connect(peer, owner);
        ibv_mr* dma = urocedv_get_dma_mr(owner.pd, IBV_ACCESS_LOCAL_WRITE);
        ASSERT_NE(dma, nullptr);
        ibv_sge segment{first, bytes, dma->lkey};
        ibv_sge far = peer.part(0, bytes);
        const bool right = bytes == kPage;
        if (receives) {
          ASSERT_EQ(owner.receive(2, segment), 0);
          // Also when the message ends in the first of them.
          far.length = kPage;
          ASSERT_EQ(peer.send(send_request(1, far)), 0);
          EXPECT_EQ(owner.next().status, right ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR);
        } else {
          if (opcode == IBV_WR_SEND) {
            ASSERT_EQ(peer.receive(2, far), 0);
          }
          ibv_send_wr request = write_request(1, segment, peer);
          request.opcode = opcode;
          ASSERT_EQ(owner.send(request), 0);
          EXPECT_EQ(owner.next().status, right ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR);
        }
        ASSERT_EQ(ibv_dereg_mr(dma), 0);
      }
    }
  }
  for (const uint64_t address : bus) EXPECT_EQ(unmap(address), 0);
}

/// The keys that the device gives, in their order.
std::vector<uint32_t> keys_of(End& end, size_t count) {
  std::vector<ibv_mr*> regions;
  std::vector<uint32_t> keys;
  for (size_t i = 0; i < count; ++i) {
    regions.push_back(ibv_reg_mr(end.pd, end.memory.data(), 64, 0));
    keys.push_back(regions.back()->rkey);
  }
  for (ibv_mr* mr : regions) EXPECT_EQ(ibv_dereg_mr(mr), 0);
  return keys;
}

TEST(Keys, WhoKnowsSome_ExpectTheNextNotToFollow) {
  End end{device_at(0), {}};
  const std::vector<uint32_t> keys = keys_of(end, 2000);
  size_t followed = 0;
  std::multiset<uint32_t> steps;
  for (size_t i = 2; i < keys.size(); ++i) {
    steps.insert(keys[i] - keys[i - 1]);
    followed += keys[i] - keys[i - 1] == keys[i - 1] - keys[i - 2] ? 1 : 0;
  }
  EXPECT_LT(followed, 3u);
  for (const uint32_t step : steps) ASSERT_LT(steps.count(step), 5u) << step;
}

TEST(Keys, DeviceThatIsOpenedAgain_ExpectAnotherOrder) {
  std::set<uint32_t> before;
  constexpr size_t kCount = 200;
  for (int i = 0; i < 2; ++i) {
    End end{device_at(0), {}};
    const std::vector<uint32_t> keys = keys_of(end, kCount);
    size_t again = 0;
    for (const uint32_t key : keys) again += before.contains(key) ? 1 : 0;
    EXPECT_LT(again, 3u) << "2^22 keys and more might have come";
    before.insert(keys.begin(), keys.end());
  }
}

TEST(QueuePairNumbers, OneAfterTheOther_ExpectNoOrderAndNoneTwice) {
  const End end{device_at(0), {}};
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = end.cq;
  wanted.cap = {
      .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  wanted.qp_type = IBV_QPT_RC;
  std::set<uint32_t> numbers;
  uint32_t before = 0;
  int ascending = 0;
  for (int i = 0; i < 3000; ++i) {
    ibv_qp* qp = ibv_create_qp(end.pd, &wanted);
    ASSERT_NE(qp, nullptr);
    EXPECT_TRUE(numbers.insert(qp->qp_num).second);
    ascending += qp->qp_num - before == 1 ? 1 : 0;
    before = qp->qp_num;
    ASSERT_EQ(ibv_destroy_qp(qp), 0);
  }
  EXPECT_LT(ascending, 5);
}

/// The application may write what it likes into the structures that it was given.
TEST_F(Protection, KeysThatTheApplicationSpoilt_ExpectObjectsToEndAllTheSame) {
  const uint64_t bus = map(0);
  const urocedv_phys_buf run{bus, kPage};
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND;
  ibv_mr* const regions[] = {ibv_reg_mr(other.pd, page(1), kPage, kAccess),
                             urocedv_get_dma_mr(other.pd, IBV_ACCESS_LOCAL_WRITE),
                             urocedv_reg_phys_mr(other.pd, &run, 1, kAccess, kIova),
                             urocedv_alloc_mr(other.pd, UROCEDV_MR_TYPE_MEM_REG, 1)};
  ibv_mw* const window = urocedv_alloc_mw(other.pd, UROCEDV_MW_TYPE_1);
  for (ibv_mr* mr : regions) ASSERT_NE(mr, nullptr);
  const uint32_t rkey = regions[0]->rkey;
  for (ibv_mr* mr : regions) urocedv_update_key(mr, static_cast<uint8_t>(mr->lkey + 1));
  regions[2]->lkey = regions[2]->rkey = 0xDEADBEEF;
  window->rkey ^= 0xFFFFFFFF;

  EXPECT_EQ(ibv_rereg_mr(regions[0], IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kAccess), 0);
  EXPECT_EQ(access(IBV_WR_RDMA_WRITE, rkey, reinterpret_cast<uintptr_t>(page(1))), IBV_WC_SUCCESS);
  ibv_mw_bind bind{.wr_id = 1,
                   .send_flags = IBV_SEND_SIGNALED,
                   .bind_info = {.mr = regions[0],
                                 .addr = reinterpret_cast<uintptr_t>(page(1)),
                                 .length = 64,
                                 .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}};
  ASSERT_EQ(ibv_bind_mw(other.qp, window, &bind), 0);
  EXPECT_EQ(other.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(access(IBV_WR_RDMA_WRITE, window->rkey, reinterpret_cast<uintptr_t>(page(1))), IBV_WC_SUCCESS);
  window->rkey = 0;
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  for (ibv_mr* mr : regions) EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(unmap(bus), 0);
}

}  // namespace
}  // namespace uroce::verbs_test
