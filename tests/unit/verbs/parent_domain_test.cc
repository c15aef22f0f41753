#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>

#include "ends.h"

// Thread domains and parent domains. That a thread has one poller is the business of tests/unit/engine.

namespace uroce::verbs_test {

/// Where a parent domain's queues lie.
struct Pool {
  enum class Answer { kMemory, kDefault, kNone, kCrooked };
  Answer answer = Answer::kMemory;
  ibv_pd* domain = nullptr;
  std::map<void*, uint64_t> pieces;  // and what each is for

  static void* allocate(ibv_pd* pd, void* pool, size_t bytes, size_t alignment, uint64_t type) {
    auto& self = *static_cast<Pool*>(pool);
    self.domain = pd;
    if (self.answer == Answer::kNone) return nullptr;
    if (self.answer == Answer::kDefault) return IBV_ALLOCATOR_USE_DEFAULT;
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(alignment, bytes + alignment));
    if (self.answer == Answer::kCrooked) ++memory;
    self.pieces.emplace(memory, type);
    return memory;
  }
  static void free(ibv_pd*, void* pool, void* memory, uint64_t type) {
    auto& self = *static_cast<Pool*>(pool);
    EXPECT_EQ(self.pieces.at(memory), type);
    self.pieces.erase(memory);
    std::free(self.answer == Answer::kCrooked ? static_cast<std::byte*>(memory) - 1 : memory);
  }
};

class ParentDomain : public ::testing::Test {
 protected:
  ParentDomain() : end(device_at(0), {}), peer(device_at(1), {}) {
    wanted.pd = end.pd;
    wanted.alloc = Pool::allocate;
    wanted.free = Pool::free;
    wanted.pd_context = &pool;
  }
  ~ParentDomain() override { EXPECT_TRUE(pool.pieces.empty()); }

  [[nodiscard]] ibv_td* thread() const {
    ibv_td_init_attr attributes{};
    ibv_td* td = ibv_alloc_td(end.context, &attributes);
    EXPECT_NE(td, nullptr);
    return td;
  }
  [[nodiscard]] ibv_pd* domain() {
    ibv_pd* pd = ibv_alloc_parent_domain(end.context, &wanted);
    EXPECT_NE(pd, nullptr);
    return pd;
  }
  /// The errno of a refusal.
  int refusal() {
    errno = 0;
    EXPECT_EQ(ibv_alloc_parent_domain(end.context, &wanted), nullptr);
    return errno;
  }
  void with_allocator() {
    wanted.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  }
  [[nodiscard]] ibv_qp* queue_pair(ibv_pd* pd, ibv_srq* srq = nullptr, ibv_cq* cq = nullptr) const {
    ibv_qp_init_attr initial{};
    initial.send_cq = initial.recv_cq = cq != nullptr ? cq : end.cq;
    initial.srq = srq;
    initial.qp_type = IBV_QPT_RC;
    initial.cap = {
        .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    return ibv_create_qp(pd, &initial);
  }
  [[nodiscard]] static ibv_srq* shared_queue(ibv_pd* pd) {
    ibv_srq_init_attr attributes{.srq_context = nullptr, .attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0}};
    return ibv_create_srq(pd, &attributes);
  }
  [[nodiscard]] ibv_cq* queue_in(ibv_pd* pd) const {
    ibv_cq_init_attr_ex attributes{};
    attributes.cqe = 16;
    attributes.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
    attributes.parent_domain = pd;
    ibv_cq_ex* cq = ibv_create_cq_ex(end.context, &attributes);
    return cq != nullptr ? ibv_cq_ex_to_cq(cq) : nullptr;
  }
  /// Sends through the queue pair, by a region of the end's own domain.
  void exchange(ibv_qp* qp) {
    std::swap(end.qp, qp);
    connect(end, peer);
    end.fill(5);
    ibv_sge segment = end.part(0, 500);
    ASSERT_EQ(end.send(write_request(1, segment, peer)), 0);
    EXPECT_EQ(end.next().status, IBV_WC_SUCCESS);
    EXPECT_TRUE(std::equal(end.memory.begin(), end.memory.begin() + 500, peer.memory.begin()));
    std::swap(end.qp, qp);
  }

  Pool pool;
  End end;
  End peer;
  ibv_parent_domain_init_attr wanted{};
};

TEST_F(ParentDomain, IsTheDomainBelowAndCarriesTraffic) {
  ibv_pd* pd = domain();
  ibv_qp* qp = queue_pair(pd);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(qp->pd, pd);
  exchange(qp);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST_F(ParentDomain, WhatIsUsedStays) {
  ibv_td* td = wanted.td = thread();
  ibv_pd* below = wanted.pd = ibv_alloc_pd(end.context);
  ibv_pd* pd = domain();
  EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(below), EBUSY);
  ibv_qp* qp = queue_pair(pd);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY) << "a queue pair";
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  ibv_srq* srq = shared_queue(pd);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY) << "a shared receive queue";
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  ibv_cq* cq = queue_in(pd);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY) << "a completion queue";
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  ibv_mr* region = ibv_reg_mr(pd, end.memory.data(), 8, int{IBV_ACCESS_LOCAL_WRITE});
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY) << "a region";
  EXPECT_EQ(ibv_dereg_mr(region), 0);
  ibv_mw* window = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY) << "a window";
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_dealloc_pd(below), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
}

TEST_F(ParentDomain, RefusesWhatMakesNoSense) {
  ibv_td_init_attr unknown{.comp_mask = 1};
  EXPECT_EQ(ibv_alloc_td(end.context, &unknown), nullptr);
  wanted.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT << 1;
  EXPECT_EQ(refusal(), EINVAL) << "unknown bits";
  with_allocator();
  wanted.free = nullptr;
  EXPECT_EQ(refusal(), EINVAL) << "half an allocator";
  wanted.comp_mask = 0;
  wanted.pd = nullptr;
  EXPECT_EQ(refusal(), EINVAL) << "no domain";
  wanted.pd = peer.pd;
  EXPECT_EQ(refusal(), EINVAL) << "another device's domain";
  wanted.pd = end.pd;
  ibv_td_init_attr plain{};
  wanted.td = ibv_alloc_td(peer.context, &plain);
  EXPECT_EQ(refusal(), EINVAL) << "another device's thread";
  EXPECT_EQ(ibv_dealloc_td(wanted.td), 0);
  wanted.td = nullptr;
  wanted.pd = domain();
  EXPECT_EQ(refusal(), EINVAL) << "a parent domain's parent";
  EXPECT_EQ(ibv_dealloc_pd(wanted.pd), 0);
  errno = 0;
  EXPECT_EQ(queue_in(end.pd), nullptr);
  EXPECT_EQ(errno, EINVAL) << "a queue in a domain that is no parent domain";
}

TEST_F(ParentDomain, ItsAllocatorGivesTheQueuesTheirMemory) {
  with_allocator();
  ibv_pd* pd = domain();
  ibv_qp* qp = queue_pair(pd);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(pool.domain, pd);
  EXPECT_EQ(pool.pieces.size(), 2U);
  ibv_srq* srq = shared_queue(pd);
  ibv_cq* cq = queue_in(pd);
  ASSERT_TRUE(srq != nullptr && cq != nullptr);
  EXPECT_GE(pool.pieces.size(), 4U);
  EXPECT_EQ(ibv_resize_cq(cq, 64), 0);
  exchange(qp);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_TRUE(pool.pieces.empty());
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST_F(ParentDomain, ItsAllocatorMayLeaveItToUsOrHaveNone) {
  with_allocator();
  ibv_pd* pd = domain();
  pool.answer = Pool::Answer::kDefault;
  ibv_qp* qp = queue_pair(pd);
  ASSERT_NE(qp, nullptr);
  exchange(qp);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  for (const Pool::Answer answer : {Pool::Answer::kNone, Pool::Answer::kCrooked}) {
    pool.answer = answer;
    for (const bool what : {false, true}) {
      errno = 0;
      EXPECT_EQ(what ? static_cast<void*>(queue_pair(pd)) : static_cast<void*>(queue_in(pd)), nullptr);
      EXPECT_EQ(errno, ENOMEM);
      EXPECT_TRUE(pool.pieces.empty());
    }
    EXPECT_EQ(shared_queue(pd), nullptr);
  }
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST_F(ParentDomain, AThreadsQueuesWorkWithOthers) {
  ibv_td* first = wanted.td = thread();
  ibv_pd* one = domain();
  ibv_td* second = wanted.td = thread();
  ibv_pd* other = domain();
  ibv_qp* qp = queue_pair(one, nullptr, queue_in(one));
  ASSERT_NE(qp, nullptr);
  ibv_cq* cq = qp->send_cq;
  ibv_qp* mixed = queue_pair(other, nullptr, cq);
  ASSERT_NE(mixed, nullptr) << "a completion queue serves all threads";
  EXPECT_EQ(ibv_destroy_qp(mixed), 0);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  qp = queue_pair(other);
  ASSERT_NE(qp, nullptr);
  exchange(qp);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  for (ibv_pd* pd : {one, other}) EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  for (ibv_td* td : {first, second}) EXPECT_EQ(ibv_dealloc_td(td), 0);
}

}  // namespace uroce::verbs_test
